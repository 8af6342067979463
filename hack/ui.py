#!/usr/bin/env python3
"""Looks at `berth ui` with a real browser: keyboard, colours, requests, links, ten thousand objects, screenshots.

    ui.py CHROMIUM BERTH FLEET DIRECTORY

CHROMIUM is driven over its debugging pipe, so nothing but Python's own library is needed. BERTH serves FLEET, a document of
`berth ui -o json`, on a loopback port. Screenshots go to DIRECTORY. The exit code is 0 if every check holds. With BERTH_UI_UNTIMED=1 times are printed and
not judged.
"""
import base64
import contextlib
import copy
import fcntl
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

PATIENCE = 60
PAGES = ["tree", "hosts", "pools", "reasons"]
# A name that would become an element if anything were ever inserted as markup.
HOSTILE = "<img src=x onerror=\"document.title='taken'\">"
OBJECTS = 10_000
# So many objects need scrolling too, and nobody would call them many.
FEW = 1_000
# What is done to each of very many objects takes no longer than people take for at once, in milliseconds. Only what they see is
# drawn, so going through very many is like going through few: no more than so many times as slow, which leaves room for noise.
AT_ONCE = 100
LIKE_FEW = 3
# Beside other work times mean nothing: then they are told and not judged.
UNTIMED = bool(os.environ.get("BERTH_UI_UNTIMED"))
BOOK = "http://book.example/berth"
SOURCES = Path(__file__).resolve().parent.parent / "book" / "src"


class Failed(Exception):
    """A check that does not hold."""


class Browser:
    """A headless browser, spoken to over a pair of pipes: JSON, each message ended by a zero byte."""

    def __init__(self, program, profile):
        here_in, there_out = os.pipe()
        there_in, here_out = os.pipe()
        # Above the two numbers that the browser looks at, so that none is overwritten before it is copied.
        read, write = (fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (there_in, there_out))

        def settle():
            os.dup2(read, 3)
            os.dup2(write, 4)

        flags = ["--headless=new", "--remote-debugging-pipe", f"--user-data-dir={profile}", "--no-first-run", "--disable-gpu",
                 "--disable-dev-shm-usage", "--disable-background-networking", "--disable-component-update", "--disable-sync",
                 "--hide-scrollbars", "--force-device-scale-factor=1"]
        if os.geteuid() == 0:
            flags.append("--no-sandbox")
        self.process = subprocess.Popen([program, *flags, "about:blank"], preexec_fn=settle, pass_fds=(3, 4),
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for end in (there_in, there_out, read, write):
            with contextlib.suppress(OSError):
                os.close(end)
        self.out, self.number, self.answers, self.events = here_out, 0, {}, []
        self.arrived = queue.Queue()
        threading.Thread(target=self._read, args=(here_in,), daemon=True).start()

    def _read(self, end):
        with open(end, "rb", buffering=0) as pipe:
            rest = b""
            while chunk := pipe.read(1 << 20):
                *messages, rest = (rest + chunk).split(b"\0")
                for message in messages:
                    self.arrived.put(json.loads(message))
        self.arrived.put(None)

    def call(self, method, session=None, **params):
        self.number += 1
        number = self.number
        message = {"id": number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.out, data):]
        end = time.monotonic() + PATIENCE
        while number not in self.answers:
            self._take(end, method)
        answer = self.answers.pop(number)
        if "error" in answer:
            raise Failed(f"{method}: {answer['error'].get('message')}")
        return answer["result"]

    def _take(self, end, what):
        try:
            message = self.arrived.get(timeout=max(0.01, end - time.monotonic()))
        except queue.Empty:
            raise Failed(f"the browser does not answer: {what}") from None
        if message is None:
            raise Failed(f"the browser ended: {what}")
        if "id" in message:
            self.answers[message["id"]] = message
        else:
            self.events.append(message)

    def wait(self, what, found):
        """Waits for an event that `found` takes."""
        end, seen = time.monotonic() + PATIENCE, 0
        while True:
            while seen < len(self.events):
                if found(self.events[seen]):
                    return self.events[seen]
                seen += 1
            self._take(end, what)

    def close(self):
        with contextlib.suppress(Failed, OSError):
            self.call("Browser.close")
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Tab:
    """One page in the browser."""

    def __init__(self, browser, base, width=1280, height=800, scheme="light"):
        self.browser, self.base = browser, base
        self.target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = browser.call("Target.attachToTarget", targetId=self.target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.call("Emulation.setFocusEmulationEnabled", enabled=True)

    def call(self, method, **params):
        return self.browser.call(method, self.session, **params)

    def events(self, method):
        return [e["params"] for e in self.browser.events if e.get("sessionId") == self.session and e["method"] == method]

    def js(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise Failed(f"{expression}: {answer['exceptionDetails'].get('exception', {}).get('description')}")
        return answer["result"].get("value")

    def until(self, expression):
        """Waits in the page, frame by frame, until the expression holds."""
        found = self.js(f"""new Promise(done => {{
            const end = performance.now() + {PATIENCE * 500};
            const look = () => ({expression}) ? done(true) : performance.now() > end ? done(false) : requestAnimationFrame(look);
            look();
        }})""")
        if not found:
            raise Failed(f"never held: {expression}")

    def open(self, page):
        self.call("Page.navigate", url=f"{self.base}#{page}")
        name = page.split("?")[0]
        shown = f"document.body && document.body.dataset.ready === 'true' && document.body.dataset.page === '{name}'"
        while True:
            try:
                return self.until(shown)
            except Failed as failed:
                # The page before this one was asked, and went away while it waited.
                if "navigated" not in str(failed):
                    raise

    def key(self, key, text=None):
        codes = {"Tab": 9, "Enter": 13, "Escape": 27, "PageUp": 33, "PageDown": 34, "End": 35, "Home": 36, "ArrowLeft": 37,
                 "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}
        params = {"key": key, "windowsVirtualKeyCode": codes.get(key, ord(key[0].upper()))}
        if text is None and len(key) == 1:
            text = key
        if key == "Enter":
            text = "\r"
        down = "keyDown" if text else "rawKeyDown"
        self.call("Input.dispatchKeyEvent", type=down, **params, **({"text": text} if text else {}))
        self.call("Input.dispatchKeyEvent", type="keyUp", **params)

    def picture(self, path):
        data = self.call("Page.captureScreenshot", format="png")["data"]
        Path(path).write_bytes(base64.b64decode(data))

    def faults(self):
        """What went wrong in the page, and what it asked for elsewhere."""
        said = [e["exceptionDetails"].get("exception", {}).get("description", "an exception") for e in self.events("Runtime.exceptionThrown")]
        said += [e["entry"]["text"] for e in self.events("Log.entryAdded") if e["entry"]["level"] == "error"]
        asked = [e["request"]["url"] for e in self.events("Network.requestWillBeSent")]
        home = self.base.rstrip("/") + "/"
        return said + [f"asked for {url}" for url in asked if not url.startswith((home, "data:"))]

    def close(self):
        self.browser.call("Target.closeTarget", targetId=self.target)


@contextlib.contextmanager
def serving(berth, document, *flags):
    """`berth ui` showing a document."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(document, file)
        file.flush()
        process = subprocess.Popen([berth, "ui", "--from-file", file.name, "--listen", "127.0.0.1:0", *flags], stdout=subprocess.PIPE, text=True)
        try:
            url = process.stdout.readline().strip()
            if not url.startswith("http://127.0.0.1:"):
                raise Failed(f"berth ui says no address but {url!r}")
            yield url
        finally:
            process.send_signal(signal.SIGINT)
            code = process.wait(timeout=20)
        if code != 0:
            raise Failed(f"berth ui ended with {code} on Ctrl-C")


def check(holds, what):
    if not holds:
        raise Failed(what)


def hostile(fleet):
    """The same fleet with names that nobody should believe."""
    fleet = copy.deepcopy(fleet)
    fleet["trees"][0]["object"]["name"] = HOSTILE
    fleet["trees"][0]["note"] = HOSTILE
    for part, field in [("hosts", "name"), ("pools", "name"), ("vips", "cluster"), ("troubles", "message")]:
        if fleet[part]:
            fleet[part][0][field] = HOSTILE
    fleet["unseen"] = [HOSTILE]
    return fleet


def renamed(value, number):
    """The same object in another namespace."""
    if isinstance(value, dict):
        return {k: f"{v}-{number:04}" if k == "namespace" and isinstance(v, str) else renamed(v, number) for k, v in value.items()}
    return [renamed(one, number) for one in value] if isinstance(value, list) else value


def size(node):
    return 1 + sum(size(child) for child in node["children"])


def grown(fleet, wanted):
    """The same fleet again and again, until its trees hold so many objects, and it has as many hosts."""
    large = {**copy.deepcopy(fleet), **{part: [] for part in ("trees", "hosts", "pools", "vips", "groups", "troubles")}}
    number = objects = 0
    while objects < wanted or len(large["hosts"]) < wanted:
        copied = renamed({part: fleet[part] for part in ("trees", "hosts", "pools", "vips", "groups", "troubles")}, number)
        if objects < wanted:
            objects += sum(size(tree) for tree in fleet["trees"])
            for part in ("trees", "pools", "vips", "groups", "troubles"):
                large[part] += copied[part]
        for host in copied["hosts"]:
            large["hosts"].append({**host, "name": f"{host['name']}-{number:04}"})
        number += 1
    return large


# The least contrast of any text with what is behind it.
CONTRAST = """(() => {
  const part = v => (v /= 255, v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
  const light = ([r, g, b]) => .2126 * part(r) + .7152 * part(g) + .0722 * part(b);
  const read = text => (text.match(/[0-9.]+/g) || []).map(Number);
  let least = [99, ''];
  for (const element of document.querySelectorAll('body *')) {
    const own = [...element.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
    const box = element.getBoundingClientRect();
    if (!own || !box.width || box.top < 0 || element.closest('noscript, .hidden, .skip')) continue;
    let behind = element, back;
    do { back = read(getComputedStyle(behind).backgroundColor); behind = behind.parentElement; } while (behind && back.length === 4 && back[3] === 0);
    const a = light(read(getComputedStyle(element).color)), b = light(back.slice(0, 3));
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    if (ratio < least[0]) least = [ratio, `${element.className || element.tagName}: ${element.textContent.slice(0, 40)}`];
  }
  return least;
})()"""


# How bright the page is behind everything, from 0 to 255.
BRIGHT = "Math.max(...getComputedStyle(document.body).backgroundColor.match(/[0-9.]+/g).slice(0, 3).map(Number))"


def look(browser, base, out):
    """Every page, light, dark and narrow."""
    for scheme, width, height in [("light", 1280, 800), ("dark", 1280, 800), ("light", 390, 780), ("dark", 390, 780)]:
        tab = Tab(browser, base, width, height, scheme)
        for page in PAGES:
            tab.open(page)
            name = f"{page}-{scheme}{'' if width > 600 else '-narrow'}"
            bright = tab.js(BRIGHT)
            check(bright > 200 if scheme == "light" else bright < 60, f"{name}: the page is of brightness {bright}")
            ratio, where = tab.js(CONTRAST)
            check(ratio >= 4.5, f"{name}: a contrast of {ratio:.2f} in {where}")
            wide = tab.js("document.documentElement.scrollWidth")
            check(wide <= width, f"{name}: {wide} pixels wide on a screen of {width}")
            tab.picture(out / f"{name}.png")
            tab.js("document.getElementById('list').focus()")
            for key in ["ArrowDown", "Enter"]:
                tab.key(key)
            tab.until("!document.getElementById('side').hidden")
            ratio, where = tab.js(CONTRAST)
            check(ratio >= 4.5, f"{name}, with details: a contrast of {ratio:.2f} in {where}")
            tab.picture(out / f"{name}-details.png")
            tab.key("Escape")
            tab.until("document.getElementById('side').hidden")
        check(not tab.faults(), f"{scheme} {width}: {tab.faults()}")
        tab.close()


def at(tab):
    """The row or cell that the keyboard is at, as assistive programs are told of it."""
    return tab.js("""(() => {
      const id = document.activeElement.getAttribute('aria-activedescendant'), row = id && document.getElementById(id);
      return row && {id, text: row.getAttribute('aria-label') || row.textContent, expanded: row.getAttribute('aria-expanded'), level: row.getAttribute('aria-level'), role: row.getAttribute('role')};
    })()""")


def keyboard(browser, base):
    """Everything can be reached and done without a mouse."""
    tab = Tab(browser, base)
    tab.open("tree")
    focused = "document.activeElement.id || document.activeElement.textContent.trim()"
    tab.key("Tab")
    check(tab.js(focused) == "skip", f"the first stop is {tab.js(focused)!r}, not the skip link")
    order = []
    for _ in range(6):
        tab.key("Tab")
        order.append(tab.js(focused))
    check([o.split(" ")[0] for o in order[:5]] == ["Tree", "Hosts", "Pools", "Reasons", "filter"], f"the order of stops is {order}")
    tab.open("hosts")
    tab.open("tree")
    tab.js("document.getElementById('skip').focus()")
    tab.key("Enter")
    check(tab.js(focused) == "list", "the skip link does not lead to the list")
    first = at(tab)
    check(first and first["role"] == "treeitem" and first["level"] == "1", f"the list begins at {first}")
    tab.key("Home")
    tab.key("ArrowLeft")
    check(at(tab)["expanded"] == "false", "the left arrow does not close a branch")
    tab.key("ArrowRight")
    check(at(tab)["expanded"] == "true", "the right arrow does not open a branch")
    tab.key("ArrowRight")
    check(at(tab)["level"] == "2", "the right arrow does not go into an open branch")
    tab.key("ArrowLeft")
    tab.key("ArrowLeft")
    check(at(tab)["level"] == "1", "the left arrow does not lead back")
    tab.key("ArrowDown")
    check(at(tab)["id"] != first["id"], "the down arrow does not move")
    tab.key("ArrowUp")
    check(at(tab)["id"] == first["id"], "the up arrow does not lead back")
    index = "Number(document.getElementById(document.activeElement.getAttribute('aria-activedescendant')).dataset.index)"
    for key, moves in [("PageDown", lambda row: row > 1), ("PageUp", lambda row: row == 0), ("End", lambda row: row > 1),
                       ("Home", lambda row: row == 0)]:
        tab.key(key)
        check(moves(tab.js(index)), f"{key} leads to row {tab.js(index)}")
    tab.key("Enter")
    check(not tab.js("document.getElementById('side').hidden"), "Enter does not tell about what is chosen")
    tab.key("Escape")
    check(tab.js("document.getElementById('side').hidden") and tab.js(focused) == "list", "Escape does not lead back to the list")
    tab.key("/")
    check(tab.js(focused) == "filter", "/ does not lead to the filter")
    tab.key("ArrowDown")
    check(tab.js(focused) == "list", "the down arrow does not lead from the filter to the list")
    tab.key("/")
    before = tab.js("document.querySelectorAll('[role=treeitem]').length")
    for letter in "no such thing at all":
        tab.key(letter)
    tab.until("document.querySelectorAll('[role=treeitem]').length === 0")
    tab.key("Escape")
    check(tab.js("document.querySelectorAll('[role=treeitem]').length") > 0 and before > 0, "Escape does not take the filter back")
    tab.open("hosts")
    tab.js("document.getElementById('list').focus()")
    tab.key("ArrowRight")
    there = at(tab)
    tab.key("ArrowLeft")
    check(there and there["role"] == "gridcell" and at(tab)["id"] != there["id"], "arrows do not move on the map of hosts")
    tree = tab.call("Accessibility.getFullAXTree")["nodes"]
    cells = [n for n in tree if n.get("role", {}).get("value") == "gridcell"]
    check(cells and all(n.get("name", {}).get("value") for n in cells), "cells without a name")
    check(not tab.faults(), f"keyboard: {tab.faults()}")
    tab.close()


def refreshes(browser, base):
    """A fleet that has not changed is asked for again, and not sent again."""
    tab = Tab(browser, base)
    tab.open("tree")
    answer = tab.browser.wait("a second answer", lambda e: e["method"] == "Network.responseReceived" and e.get("sessionId") == tab.session
                              and e["params"]["response"]["url"].endswith("/api/v1/fleet") and e["params"]["response"]["status"] == 304)
    check(answer, "no 304")
    tab.close()


def unbelieved(browser, base):
    """Names are text, whatever they look like."""
    tab = Tab(browser, base)
    for page in PAGES:
        tab.open(page)
        check(tab.js("document.images.length") == 0, f"{page}: a name became an element")
        check("Berth" in tab.js("document.title"), f"{page}: a name ran")
        tab.key("Escape")
    check(tab.js("document.body.textContent.includes('<img src=x')"), "the name is not shown")
    check(not tab.faults(), f"hostile names: {tab.faults()}")
    tab.close()


def linked(browser, base, fleet, book):
    """Every reason leads to its section: to the book where one is served, and by its name elsewhere."""
    pages = {one["page"] for one in fleet["troubles"] if one.get("page")}
    check(len(pages) >= 5, f"only {len(pages)} reasons in the fleet have a page")
    for page in pages:
        file, anchor = page.split("#")
        headings = [line[3:].strip().lower() for line in (SOURCES / file).read_text().splitlines() if line.startswith("## ")]
        check(anchor in headings, f"the book has no section {page}")
    tab = Tab(browser, base)
    tab.open("reasons")
    tab.js("document.getElementById('list').focus()")
    tab.key("Home")
    tab.key("Enter")
    rows, found = len(fleet["troubles"]), set()
    for _ in range(rows):
        found.update(tab.js("[...document.querySelectorAll('#side .trouble a')].map(a => a.href)") if book else
                     tab.js("[...document.querySelectorAll('#side .trouble p > code')].map(code => code.textContent)"))
        tab.key("ArrowDown")
    wanted = {f"{book}/{page.replace('.md#', '.html#')}" for page in pages} if book else pages
    check(found == wanted, f"reasons lead to {sorted(found)} and not to {sorted(wanted)}")
    check(tab.js("[...document.querySelectorAll('a[target]')].every(a => a.rel.includes('noopener') && a.rel.includes('noreferrer'))"),
          "a page that is opened learns where it was opened from")
    check(not tab.faults(), f"links: {tab.faults()}")
    tab.close()


# How long one step of a walk through the list takes, in milliseconds: the middle of many, each with all that has to be drawn and
# laid out anew. No step shows what the one before it did.
WALK = """(() => {
  const list = document.getElementById('list'), steps = [], far = list.scrollHeight - list.clientHeight;
  if (far < 4 * list.clientHeight) throw new Error(`only ${list.scrollHeight} pixels to walk through`);
  for (let step = 0; step < 101; step += 1) {
    const begin = performance.now();
    list.scrollTop = (step % 2 ? 0.75 : 0.25) * far + step;
    list.dispatchEvent(new Event('scroll'));
    list.getBoundingClientRect();
    for (const row of list.querySelectorAll('.row')) row.getBoundingClientRect();
    steps.push(performance.now() - begin);
  }
  return steps.sort((a, b) => a - b)[50];
})()"""

# How long it takes until a word in the filter has its effect, in milliseconds: the slowest of a few words.
SIEVE = """(() => {
  const filter = document.getElementById('filter'), list = document.getElementById('list'), all = [];
  for (const word of ['a', 'baremetal', 'no such thing', 'rack', '']) {
    const begin = performance.now();
    filter.value = word;
    filter.dispatchEvent(new Event('input'));
    list.getBoundingClientRect();
    all.push(performance.now() - begin);
  }
  return Math.max(...all);
})()"""


def pace(browser, base):
    """How long a step through the list of each page takes, and the slowest word in the filter. Noise only adds: the least counts."""
    tab, walks, sieves = Tab(browser, base), {}, {}
    for page in PAGES:
        tab.open(page)
        tab.until("document.querySelectorAll('.row').length > 0")
        tab.js(WALK)
        walks[page] = min(tab.js(WALK) for _ in range(3))
        sieves[page] = min(tab.js(SIEVE) for _ in range(5))
    check(not tab.faults(), f"pace: {tab.faults()}")
    tab.close()
    return walks, sieves


def large(browser, base, out):
    """Ten thousand objects and ten thousand hosts."""
    tab = Tab(browser, base)
    for page in PAGES:
        tab.open(page)
        tab.until("document.querySelectorAll('.row').length > 0")
        elements = tab.js("document.querySelectorAll('*').length")
        check(elements < 4_000, f"{page}: {elements} elements for what fits on a screen")
        rows = tab.js("Math.round(parseFloat(document.getElementById('space').style.height) / 24)")
        took = float(tab.js("document.body.dataset.took"))
        tab.js("document.getElementById('list').focus()")
        tab.key("End")
        tab.until("document.getElementById('list').scrollTop + document.getElementById('list').clientHeight >= parseFloat(document.getElementById('space').style.height) - 48")
        after = tab.js("document.querySelectorAll('*').length")
        check(after < 4_000, f"{page}: {after} elements after a walk to the end")
        tab.picture(out / f"{page}-large.png")
        print(f"  {page}: {rows} rows, {elements} elements, laid out in {took:.0f} ms")
    check(not tab.faults(), f"large: {tab.faults()}")
    tab.close()


def main(chromium, berth, fleet, out):
    fleet, out = json.loads(Path(fleet).read_text()), Path(out)
    out.mkdir(parents=True, exist_ok=True)
    profile = tempfile.mkdtemp(prefix="berth-ui-")
    browser = Browser(chromium, profile)
    try:
        with serving(berth, fleet) as base:
            for name, step in [("every page, light, dark and narrow", lambda: look(browser, base, out)),
                               ("the keyboard", lambda: keyboard(browser, base)),
                               ("an unchanged fleet costs a 304", lambda: refreshes(browser, base))]:
                print(f"ui: {name}", flush=True)
                step()
        with serving(berth, hostile(fleet)) as base:
            print("ui: names that look like markup", flush=True)
            unbelieved(browser, base)
        for book in [None, BOOK]:
            with serving(berth, fleet, *(["--book", book] if book else [])) as base:
                print(f"ui: links to {'the book' if book else 'pages by their names'}", flush=True)
                linked(browser, base, fleet, book)
        with serving(berth, grown(fleet, FEW)) as base:
            few, _ = pace(browser, base)
        with serving(berth, grown(fleet, OBJECTS)) as base:
            print("ui: ten thousand objects", flush=True)
            large(browser, base, out)
            many, sieves = pace(browser, base)
        for page in PAGES:
            times = many[page] / max(few[page], 0.1)
            print(f"  {page}: a step takes {many[page]:.1f} ms, {times:.1f} times as long as of {FEW}; the filter {sieves[page]:.0f} ms")
            check(UNTIMED or times <= LIKE_FEW, f"{page}: a step through {OBJECTS} objects takes {times:.1f} times as long as through {FEW}")
            check(UNTIMED or sieves[page] <= AT_ONCE, f"{page}: a word in the filter takes {sieves[page]:.0f} ms to have its effect")
    except Failed as failed:
        print(f"ui: failed: {failed}", file=sys.stderr)
        return 1
    finally:
        browser.close()
        shutil.rmtree(profile, ignore_errors=True)
    print(f"ui: all checks hold; screenshots are in {out}")
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 5:
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    sys.exit(main(*sys.argv[1:]))
