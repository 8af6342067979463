// The pages of `berth ui`. No framework and no build step. All text of objects goes through textContent.
//
// Every page is a list of rows of one height, of which only those in sight exist as elements: ten thousand objects cost as
// much to draw as fifty.
"use strict";

(() => {
  const ROW = 24;
  const EVERY = 5000;
  const OVERSCAN = 12;
  const RANK = { problem: 0, unknown: 1, waiting: 2, ok: 3, aside: 4 };
  const SIGN = { ok: "✓", waiting: "…", problem: "✗", aside: "-", unknown: "?" };
  const WORD = { ok: "fine", waiting: "waiting", problem: "problem", aside: "left alone", unknown: "not seen" };
  // What a host can be to somebody who wants one, with a sign so that nobody has to tell colours apart.
  const SORTS = [["failed", "✗"], ["unavailable", "–"], ["used", "●"], ["free", "○"]];
  const MARK = Object.fromEntries(SORTS);
  const SUBJECT = { "Cluster": "cluster", "Cluster.anywhere": "cluster.anywhere", "HostClaim": "hostclaim", "Metal3Machine": "metal3machine", "AWSMachine": "awsmachine", "MachineDeployment": "machinedeployment", "MachineSet": "machineset", "MachinePool": "machinepool" };

  const at = id => document.getElementById(id);
  const list = at("list"), space = at("space"), filter = at("filter"), side = at("side");
  const collator = new Intl.Collator("en", { numeric: true });

  let fleet = null, etag = null, readAt = 0, trouble = "";
  let page = "tree", words = [], view = { rows: [] }, only = null;
  const active = { tree: null, hosts: null, pools: null, reasons: null };
  const folds = new Map();
  let shown = new Map();

  // ---- small things -------------------------------------------------------------------------------------------------

  function make(tag, className, text) {
    const element = document.createElement(tag);
    if (className) element.className = className;
    if (text !== undefined && text !== null) element.textContent = text;
    return element;
  }

  const list_of = value => (Array.isArray(value) ? value : []);
  const level_of = value => (Object.hasOwn(RANK, value) ? value : "unknown");
  const path = object => (object.namespace ? `${object.namespace}/${object.name}` : String(object.name ?? ""));
  const key_of = object => `${object.kind}:${path(object)}`;
  const hay = parts => parts.filter(Boolean).join("\n").toLowerCase();
  const matches = text => words.every(word => text.includes(word));
  const many = (count, one, more = `${one}s`) => `${count.toLocaleString("en")} ${count === 1 ? one : more}`;

  function age(since) {
    const now = fleet && fleet.taken ? Date.parse(fleet.taken) : Date.now();
    const seconds = Math.max(0, Math.floor((now - Date.parse(since)) / 1000));
    if (!Number.isFinite(seconds)) return "";
    if (seconds < 120) return `${seconds}s`;
    if (seconds < 7200) return `${Math.floor(seconds / 60)}m`;
    if (seconds < 172800) return `${Math.floor(seconds / 3600)}h`;
    return `${Math.floor(seconds / 86400)}d`;
  }

  function sign(level) {
    const element = make("span", `sign ${level}`, SIGN[level]);
    element.setAttribute("role", "img");
    element.setAttribute("aria-label", WORD[level]);
    return element;
  }

  // ---- what was read ------------------------------------------------------------------------------------------------

  // Adds to a document what the pages ask for again and again.
  function prepare(read) {
    const prepared = { ...read };
    prepared.trees = list_of(read.trees).map(root => branch(root, "", 1));
    sort_nodes(prepared.trees);
    prepared.hosts = list_of(read.hosts).map(host => ({
      ...host,
      key: key_of(host),
      sort: Object.hasOwn(MARK, host.sort) ? host.sort : "unavailable",
      hay: hay([host.kind, host.namespace, host.name, host.zone, host.sort, host.state, host.consumer, host.error, ...list_of(host.labels)]),
    }));
    prepared.troubles = list_of(read.troubles).map((one, index) => ({
      ...one,
      object: one.object ?? { kind: "?", name: "?" },
      level: level_of(one.level),
      key: `${index}:${key_of(one.object ?? {})}`,
      hay: hay([one.object?.kind, one.object?.namespace, one.object?.name, one.reason, one.message, one.part, one.level]),
    }));
    prepared.pools = list_of(read.pools).map(pool => ({ ...pool, level: level_of(pool.level), key: key_of(pool), hay: hay([pool.kind, pool.namespace, pool.name, pool.note]) }));
    prepared.vips = list_of(read.vips).map(vip => ({
      ...vip,
      level: level_of(vip.level),
      key: `vip:${vip.namespace}/${vip.cluster}/${vip.role ?? ""}`,
      hay: hay([vip.namespace, vip.cluster, vip.role, vip.address, vip.pool, vip.reason, vip.message]),
    }));
    prepared.groups = list_of(read.groups).map(group => ({
      ...group,
      level: level_of(group.level),
      key: `group:${group.kind}:${group.namespace}/${group.name}`,
      hay: hay([group.kind, group.namespace, group.name, group.instanceType, group.region, group.state]),
    }));
    prepared.reasons = read.reasons ?? {};
    return prepared;
  }

  function branch(node, above, level) {
    const object = node.object ?? { kind: "?", name: "?" };
    const key = `${above}/${key_of(object)}`;
    const made = { key, object, depth: level, level: level_of(node.level), note: node.note ?? "", children: [], bad: 0 };
    made.hay = hay([object.kind, object.namespace, object.name, made.note, made.level]);
    made.worst = made.level;
    for (const child of list_of(node.children)) {
      const below = branch(child, key, level + 1);
      made.children.push(below);
      made.bad += below.bad + (below.level === "problem" ? 1 : 0);
      if (RANK[below.worst] < RANK[made.worst]) made.worst = below.worst;
    }
    sort_nodes(made.children);
    return made;
  }

  // What needs somebody comes first; otherwise things stay in the order in which they came.
  function sort_nodes(nodes) {
    nodes.sort((a, b) => RANK[a.worst] - RANK[b.worst]);
  }

  // ---- the pages ----------------------------------------------------------------------------------------------------

  const PAGES = {
    tree: { role: "tree", label: "Clusters, machines and claims", build: build_tree, draw: draw_tree },
    hosts: { role: "grid", label: "Hosts by namespace and zone", build: build_hosts, draw: draw_hosts },
    pools: { role: "listbox", label: "Address pools, addresses and groups of machines", build: build_pools, draw: draw_pools },
    reasons: { role: "listbox", label: "Everything that is not as it should be", build: build_reasons, draw: draw_reasons },
  };

  const is_open = node => folds.get(node.key) ?? node.worst === "problem";

  function build_tree() {
    const rows = [];
    let objects = 0, problems = 0, found = 0;
    const hits = new Map();
    // With a filter a node stays if it or anything below it matches; what matches brings along what stands above it.
    const hit = node => {
      let any = false;
      for (const child of node.children) any = hit(child) || any;
      const own = matches(node.hay);
      if (own) found += 1;
      hits.set(node, own ? 2 : any ? 1 : 0);
      return own || any;
    };
    const count = node => {
      objects += 1;
      if (node.level === "problem") problems += 1;
      node.children.forEach(count);
    };
    fleet.trees.forEach(count);
    if (words.length) fleet.trees.forEach(hit);
    const place = (nodes, above) => {
      const kept = words.length && !above.whole ? nodes.filter(node => hits.get(node)) : nodes;
      kept.forEach((node, index) => {
        const whole = above.whole || hits.get(node) === 2;
        const forced = words.length && hits.get(node) === 1 && !folds.has(`${node.key} filtered`);
        const open = node.children.length > 0 && (forced || is_open(node));
        rows.push({ key: node.key, node, open, setsize: kept.length, position: index + 1, namespace: above.namespace, above: above.key });
        if (open) place(node.children, { whole, namespace: node.object.namespace ?? above.namespace, key: node.key });
      });
    };
    place(fleet.trees, { whole: false, namespace: undefined, key: null });
    const sum = `${many(objects, "object")} below ${many(fleet.trees.length, "cluster or claim", "clusters and claims")}${problems ? `, ${many(problems, "problem")}` : ", no problem"}`;
    return { rows, sum, found, empty: "No clusters and no claims were found." };
  }

  function draw_tree(row, index) {
    const { node } = row;
    const element = make("div", `row pick ${node.level}`);
    element.setAttribute("role", "treeitem");
    element.setAttribute("aria-level", String(node.depth));
    element.setAttribute("aria-setsize", String(row.setsize));
    element.setAttribute("aria-posinset", String(row.position));
    element.style.paddingLeft = `${Math.min(node.depth - 1, 12) * 18 + 12}px`;
    const twist = make("span", node.children.length ? "twist" : "twist none", node.children.length ? (row.open ? "▼" : "▶") : "");
    twist.setAttribute("aria-hidden", "true");
    if (node.children.length) {
      element.setAttribute("aria-expanded", String(row.open));
      twist.dataset.fold = String(index);
    }
    const elsewhere = node.object.namespace && node.object.namespace !== row.namespace;
    element.append(twist, sign(node.level), make("span", "kind", node.object.kind), make("span", "name cut", elsewhere ? path(node.object) : node.object.name));
    if (!row.open && node.bad) element.append(make("span", "inside", `${node.bad} ✗ inside`));
    element.append(make("span", "note cut", node.note));
    element.title = node.note;
    return element;
  }

  function build_hosts() {
    const counts = Object.fromEntries(SORTS.map(([sort]) => [sort, 0]));
    const kept = [];
    for (const host of fleet.hosts) {
      counts[host.sort] += 1;
      if ((!only || host.sort === only) && matches(host.hay)) kept.push(host);
    }
    const groups = new Map();
    for (const host of kept) {
      const name = `${host.namespace || "no namespace"}\n${host.zone ?? ""}`;
      if (!groups.has(name)) groups.set(name, []);
      groups.get(name).push(host);
    }
    const across = Math.max(1, Math.floor((list.clientWidth - 29) / 23));
    const rows = [], places = new Map();
    for (const name of [...groups.keys()].sort(collator.compare)) {
      const hosts = groups.get(name).sort((a, b) => collator.compare(a.name, b.name));
      const [namespace, zone] = name.split("\n");
      rows.push({ key: `head ${name}`, head: true, namespace, zone, hosts });
      for (let from = 0; from < hosts.length; from += across) {
        const items = hosts.slice(from, from + across);
        items.forEach((host, column) => places.set(host.key, { row: rows.length, column }));
        rows.push({ key: `cells ${items[0].key}`, items });
      }
    }
    const sum = `${many(fleet.hosts.length, "host")}:`;
    return { rows, places, counts, sum, found: kept.length, empty: "No hosts were found." };
  }

  function draw_hosts(row) {
    if (row.head) {
      const element = make("div", "row head");
      element.setAttribute("role", "row");
      const head = make("span", "cut");
      head.setAttribute("role", "rowheader");
      head.append(make("span", null, row.namespace), make("span", "soft", row.zone ? ` · ${row.zone}` : " · no zone"));
      const counts = SORTS.map(([sort]) => [sort, row.hosts.filter(host => host.sort === sort).length]).filter(([, count]) => count);
      element.append(head, make("span", "soft cut", counts.map(([sort, count]) => `${count} ${sort}`).join(", ")));
      return element;
    }
    const element = make("div", "row cells");
    element.setAttribute("role", "row");
    for (const host of row.items) {
      const cell = make("span", `cell ${host.sort}`, MARK[host.sort]);
      cell.setAttribute("role", "gridcell");
      cell.setAttribute("aria-label", `${host.name}, ${host.sort}${host.error ? `, ${host.error}` : ""}`);
      cell.title = [host.name, host.sort, host.error, host.consumer].filter(Boolean).join(" · ");
      cell.dataset.host = host.key;
      cell.id = `cell-${host.key}`;
      element.append(cell);
    }
    return element;
  }

  function build_pools() {
    const rows = [];
    let found = 0;
    const part = (title, what, more, items) => {
      const kept = items.filter(item => matches(item.hay));
      found += kept.length;
      if (words.length && !kept.length) return;
      rows.push({ key: `head ${title}`, head: title, note: items.length ? many(items.length, what, more) : "none" });
      kept.sort((a, b) => RANK[a.level] - RANK[b.level]).forEach(item => rows.push({ key: item.key, [what === "address" ? "vip" : what]: item, item }));
    };
    part("Address pools", "pool", "pools", fleet.pools);
    part("Addresses of clusters", "address", "addresses", fleet.vips);
    part("Groups of machines, as cluster-autoscaler sees them", "group", "groups", fleet.groups);
    const sum = `${many(fleet.pools.length, "pool")}, ${many(fleet.vips.length, "address", "addresses")}, ${many(fleet.groups.length, "group")} of machines`;
    return { rows, sum, found, empty: "Nothing was found." };
  }

  function draw_pools(row) {
    if (row.head) {
      const element = make("div", "row head");
      element.setAttribute("role", "presentation");
      element.append(make("span", null, row.head), make("span", "soft", row.note));
      return element;
    }
    const element = make("div", `row pick ${row.item.level}`);
    element.setAttribute("role", "option");
    if (row.pool) {
      const pool = row.pool;
      const counted = Number.isFinite(pool.total) && Number.isFinite(pool.used);
      element.append(sign(pool.level), make("span", "name w1 cut", path(pool)), make("span", "kind w2 cut wide", pool.kind));
      const meter = make("span", "meter");
      if (counted) {
        meter.setAttribute("role", "img");
        meter.setAttribute("aria-label", `${pool.used} of ${pool.total} used`);
        const fill = make("span");
        if (pool.level === "ok" && pool.used >= 0.8 * pool.total) meter.classList.add("high");
        fill.style.width = `${pool.total > 0 ? Math.min(100, Math.max(0, (pool.used / pool.total) * 100)) : 100}%`;
        meter.append(fill);
      }
      element.append(meter, make("span", "soft w2 cut", counted ? `${pool.free} of ${pool.total} free` : "not counted yet"), make("span", "note cut wide", pool.note));
    } else if (row.vip) {
      const vip = row.vip;
      element.append(sign(vip.level), make("span", "name w1 cut", `${vip.namespace}/${vip.cluster}`), make("span", "w3 cut mid soft", vip.role ?? ""), make("span", "w2 cut mono", vip.address ?? "–"), make("span", "w2 cut wide soft", String(vip.pool ?? "").split("/").pop()), make("span", "note cut", vip.level === "ok" ? vip.reason ?? "" : vip.message ?? ""));
    } else {
      const group = row.group;
      element.append(sign(group.level), make("span", "name w1 cut", `${group.namespace}/${group.name}`), make("span", "kind w2 cut wide", String(group.kind).split(".")[0]), make("span", "w3 cut mid", group.instanceType ?? "–"), make("span", "w2 cut wide soft", [group.cpu && `${group.cpu} CPU`, group.memory, group.gpus].filter(Boolean).join(", ")), make("span", "note cut", group.state));
    }
    return element;
  }

  function build_reasons() {
    const counts = new Map();
    const rows = [];
    for (const one of fleet.troubles) {
      if (!matches(one.hay)) continue;
      const name = one.reason ?? "without a reason";
      counts.set(name, (counts.get(name) ?? 0) + 1);
      if (!only || name === only) rows.push({ key: one.key, one, item: one });
    }
    const levels = { problem: 0, unknown: 0, waiting: 0 };
    fleet.troubles.forEach(one => { levels[one.level] = (levels[one.level] ?? 0) + 1; });
    const parts = [[levels.problem, "problem"], [levels.waiting, "waiting"], [levels.unknown, "not seen"]].filter(([count]) => count);
    const sum = parts.length ? parts.map(([count, what]) => (what === "problem" ? many(count, what) : `${count.toLocaleString("en")} ${what}`)).join(", ") : "";
    return { rows, reasons: counts, sum, found: rows.length, empty: "Everything is as it should be." };
  }

  function draw_reasons(row, index) {
    const { one } = row;
    const element = make("div", `row pick ${one.level}`);
    element.setAttribute("role", "option");
    element.setAttribute("aria-setsize", String(view.rows.length));
    element.setAttribute("aria-posinset", String(index + 1));
    element.append(sign(one.level), make("span", one.reason ? "reason w2 cut" : "w2 cut faint", one.reason ?? "–"));
    const object = make("span", "w1 cut");
    object.append(make("span", "kind mid", `${one.object.kind} `), make("span", "name", path(one.object)));
    element.append(object, make("span", "note cut mid", one.message ?? ""), make("span", "w4 faint", one.since ? age(one.since) : ""));
    element.title = one.message ?? "";
    return element;
  }

  // ---- the list -----------------------------------------------------------------------------------------------------

  function paint() {
    const rows = view.rows;
    const first = Math.max(0, Math.floor(list.scrollTop / ROW) - OVERSCAN);
    const last = Math.min(rows.length, Math.ceil((list.scrollTop + list.clientHeight) / ROW) + OVERSCAN);
    for (const [index, element] of shown) {
      if (index < first || index >= last) {
        element.remove();
        shown.delete(index);
      }
    }
    const added = document.createDocumentFragment();
    for (let index = first; index < last; index += 1) {
      if (shown.has(index)) continue;
      const element = PAGES[page].draw(rows[index], index);
      element.style.top = `${index * ROW}px`;
      element.dataset.index = String(index);
      element.id = `row-${index}`;
      shown.set(index, element);
      added.append(element);
    }
    space.append(added);
    mark();
  }

  // Shows which row or cell the keyboard is at.
  function mark() {
    const now = active[page];
    let id = null;
    for (const [index, element] of shown) {
      const row = view.rows[index];
      if (row.items) {
        for (const cell of element.children) {
          const here = cell.dataset.host === now;
          cell.classList.toggle("active", here);
          cell.setAttribute("aria-selected", String(here));
          if (here) id = cell.id;
        }
      } else if (!row.head) {
        const here = row.key === now;
        element.classList.toggle("active", here);
        element.setAttribute("aria-selected", String(here));
        if (here) id = element.id;
      }
    }
    if (id) list.setAttribute("aria-activedescendant", id);
    else list.removeAttribute("aria-activedescendant");
  }

  function lay() {
    const start = performance.now();
    const current = PAGES[page];
    view = fleet ? current.build() : { rows: [], sum: "", found: 0, empty: "" };
    list.setAttribute("role", current.role);
    list.setAttribute("aria-label", current.label);
    space.style.height = `${view.rows.length * ROW}px`;
    space.replaceChildren();
    shown = new Map();
    if (!view.rows.length && fleet) {
      const text = words.length || only ? "Nothing matches the filter." : view.empty;
      space.append(make("p", "empty", text));
    }
    at("sum").textContent = view.sum ?? "";
    at("found").textContent = fleet && words.length ? many(view.found, "match", "matches") : "";
    legend();
    paint();
    document.body.dataset.page = page;
    document.body.dataset.ready = String(Boolean(fleet));
    document.body.dataset.took = (performance.now() - start).toFixed(1);
  }

  function legend() {
    const box = at("legend");
    const had = document.activeElement && box.contains(document.activeElement) ? document.activeElement.dataset.only : null;
    box.replaceChildren();
    const button = (name, count, mark) => {
      const element = make("button");
      element.type = "button";
      element.dataset.only = name;
      element.setAttribute("aria-pressed", String(only === name));
      if (mark) element.append(mark);
      element.append(document.createTextNode(name), make("b", null, count.toLocaleString("en")));
      box.append(element);
      if (had === name) element.focus();
    };
    if (page === "hosts" && fleet) {
      for (const [sort, glyph] of SORTS) {
        if (!view.counts[sort] && sort !== only) continue;
        const cell = make("span", `cell ${sort}`, glyph);
        cell.setAttribute("aria-hidden", "true");
        button(sort, view.counts[sort], cell);
      }
    }
    if (page === "reasons" && fleet) {
      const sorted = [...view.reasons].sort((a, b) => b[1] - a[1] || collator.compare(a[0], b[0]));
      if (sorted.length > 1 || only) sorted.slice(0, 12).forEach(([name, count]) => button(name, count));
    }
  }

  function scroll_to(index) {
    const top = index * ROW, bottom = top + ROW;
    if (top < list.scrollTop) list.scrollTop = top - 4;
    else if (bottom > list.scrollTop + list.clientHeight - 8) list.scrollTop = bottom - list.clientHeight + 8;
    paint();
  }

  function activate(key, index) {
    active[page] = key;
    if (index !== undefined) scroll_to(index);
    else mark();
    if (!side.hidden) details();
  }

  function move(step) {
    const rows = view.rows;
    if (!rows.length) return;
    let index = rows.findIndex(row => row.key === active[page]);
    if (index < 0) index = step > 0 ? -1 : rows.length;
    const way = Math.sign(step);
    let next = Math.min(rows.length - 1, Math.max(0, index + step));
    while (rows[next] && rows[next].head) next += way;
    if (!rows[next]) {
      next = Math.min(rows.length - 1, Math.max(0, index + step));
      while (rows[next] && rows[next].head) next -= way;
    }
    if (rows[next]) activate(rows[next].key, next);
  }

  function move_cell(rows_down, cells_right) {
    const { rows, places } = view;
    const lines = rows.map((row, index) => (row.items ? index : -1)).filter(index => index >= 0);
    if (!lines.length) return;
    let now = places.get(active.hosts);
    if (!now) {
      now = { row: lines[0], column: 0 };
      if (rows_down <= 1) [rows_down, cells_right] = [0, 0];
    }
    let line = lines.indexOf(now.row), column = now.column + cells_right;
    if (column < 0 && line > 0) {
      line -= 1;
      column = Infinity;
    } else if (column >= rows[lines[line]].items.length && cells_right && line < lines.length - 1) {
      line += 1;
      column = 0;
    }
    line = Math.min(lines.length - 1, Math.max(0, line + rows_down));
    const items = rows[lines[line]].items;
    column = Math.min(items.length - 1, Math.max(0, column));
    activate(items[column].key, lines[line]);
  }

  function fold(row, open) {
    folds.set(row.node.key, open);
    // A branch that only a filter holds open can be closed too.
    if (words.length && !open) folds.set(`${row.node.key} filtered`, true);
    else folds.delete(`${row.node.key} filtered`);
    const top = list.scrollTop;
    lay();
    list.scrollTop = top;
    paint();
  }

  // ---- details ------------------------------------------------------------------------------------------------------

  function chosen() {
    const key = active[page];
    if (!fleet || !key) return null;
    if (page === "hosts") {
      const host = fleet.hosts.find(one => one.key === key);
      return host && {
        object: host, level: null, text: "",
        facts: [["state", host.sort + (host.state && host.state !== host.sort ? `, ${host.state}` : "")], ["used by", host.consumer], ["power", host.poweredOn === true ? "on" : host.poweredOn === false ? "off" : null], ["error", host.error], ["zone", host.zone], ["labels", list_of(host.labels).join(" ")]],
      };
    }
    const row = view.rows.find(one => one.key === key);
    if (!row) return null;
    if (row.node) return { object: row.node.object, level: row.node.level, text: row.node.note, facts: [] };
    if (row.one) return { object: row.one.object, level: row.one.level, text: row.one.part ?? "", facts: [], first: row.one };
    if (row.pool) return { object: row.pool, level: row.pool.level, text: row.pool.note, facts: [["used", row.pool.used], ["free", row.pool.free], ["total", row.pool.total], ["addresses", list_of(row.pool.addresses).join(", ")]] };
    if (row.vip) return { object: { kind: "Cluster", namespace: row.vip.namespace, name: row.vip.cluster }, level: row.vip.level, text: row.vip.message, facts: [["role", row.vip.role], ["address", row.vip.address], ["pool", row.vip.pool], ["reason", row.vip.reason]] };
    const group = row.group;
    return { object: { kind: String(group.kind).split(".")[0], namespace: group.namespace, name: group.name }, level: group.level, text: group.state, facts: [["type", group.instanceType], ["region", group.region], ["cpu", group.cpu], ["memory", group.memory], ["gpus", group.gpus]] };
  }

  function details() {
    const box = at("details");
    const picked = chosen();
    box.replaceChildren();
    if (!picked) {
      side.hidden = true;
      return;
    }
    side.hidden = false;
    const { object } = picked;
    box.append(make("h2", null, path(object)));
    const under = make("p", "under");
    if (picked.level) under.append(sign(picked.level), document.createTextNode(" "));
    under.append(document.createTextNode(picked.level ? `${object.kind}: ${WORD[picked.level]}` : object.kind));
    box.append(under);
    if (picked.text) box.append(make("p", null, picked.text));
    const facts = picked.facts.filter(([, value]) => value !== undefined && value !== null && value !== "");
    if (facts.length) {
      const table = make("dl");
      for (const [name, value] of facts) table.append(make("dt", null, name), make("dd", null, String(value)));
      box.append(table);
    }
    const same = fleet.troubles.filter(one => key_of(one.object) === key_of(object));
    if (picked.first) same.sort((a, b) => (b === picked.first) - (a === picked.first));
    if (same.length) box.append(make("h3", null, "Why"));
    for (const one of same.slice(0, 20)) box.append(told(one));
    const subject = SUBJECT[object.kind];
    if (subject && /^[a-z0-9.-]+$/.test(object.name)) {
      box.append(make("h3", null, "Ask for everything that is known"));
      box.append(copyable(`berth explain ${subject}/${object.name}${object.namespace ? ` -n ${object.namespace}` : ""}`));
    }
  }

  function told(one) {
    const box = make("div", "trouble");
    const head = make("p");
    head.append(sign(one.level), document.createTextNode(" "), make("b", null, one.reason ?? one.part ?? WORD[one.level]));
    if (one.since) head.append(make("span", "soft", ` for ${age(one.since)}`));
    box.append(head);
    if (one.message) box.append(make("p", null, one.message));
    if (one.page) {
      if (Object.hasOwn(fleet.reasons, one.page)) box.append(make("p", "soft", fleet.reasons[one.page]));
      const where = make("p", "soft");
      where.append(document.createTextNode("In the book: "), book(one.page));
      box.append(where);
    }
    return box;
  }

  // Where the book is served it is linked; elsewhere its page is named.
  function book(place) {
    const base = fleet.book;
    if (typeof base !== "string" || !/^https?:\/\//.test(base)) return make("code", null, place);
    const link = make("a", null, place);
    link.href = `${base.replace(/\/$/, "")}/${String(place).replace(".md#", ".html#")}`;
    link.target = "_blank";
    link.rel = "noopener noreferrer";
    return link;
  }

  function copyable(text) {
    const box = make("div", "copy");
    const button = make("button", null, "Copy");
    button.type = "button";
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(text);
        button.textContent = "Copied";
      } catch {
        button.textContent = "Not allowed";
      }
    });
    box.append(make("code", null, text), button);
    return box;
  }

  // ---- what could not be seen ----------------------------------------------------------------------------------------

  function notices() {
    const box = at("notices");
    box.replaceChildren();
    if (!fleet) return;
    if (fleet.error) box.append(make("p", "bad", `What is shown is old: ${fleet.error}`));
    if (fleet.taken) box.append(make("p", "soft", `A saved document, taken at ${fleet.taken}.`));
    const unseen = list_of(fleet.unseen);
    if (unseen.length) {
      const more = make("details");
      more.open = unseen.length <= 3;
      more.append(make("summary", null, `${many(unseen.length, "kind")} could not be seen, so what depends on ${unseen.length === 1 ? "it" : "them"} is missing`));
      const items = make("ul");
      unseen.forEach(why => items.append(make("li", null, why)));
      more.append(items);
      box.append(more);
    }
  }

  function badges() {
    const put = (id, text, bad) => {
      at(id).textContent = text;
      at(id).classList.toggle("bad", bad);
    };
    if (!fleet) return;
    const failed = fleet.hosts.filter(host => host.sort === "failed").length;
    const full = fleet.pools.filter(pool => pool.level === "problem").length;
    const problems = fleet.troubles.filter(one => one.level === "problem").length;
    put("count-hosts", failed ? `${failed} ✗` : "", failed > 0);
    put("count-pools", full ? `${full} ✗` : "", full > 0);
    put("count-reasons", fleet.troubles.length ? (problems ? `${problems} ✗` : String(fleet.troubles.length)) : "", problems > 0);
  }

  function state() {
    const box = at("state");
    const old = fleet && fleet.error;
    box.classList.toggle("bad", Boolean(trouble || old));
    const now = trouble || (old ? "not up to date" : !readAt ? "reading…" : fleet && fleet.taken ? "saved document" : "up to date");
    if (box.textContent !== now) box.textContent = now;
  }

  // ---- reading ------------------------------------------------------------------------------------------------------

  async function refresh() {
    try {
      const headers = etag ? { "If-None-Match": etag } : {};
      const answer = await fetch("api/v1/fleet", { headers, cache: "no-store", credentials: "omit", redirect: "error" });
      if (answer.status === 304) {
        trouble = "";
      } else if (answer.ok) {
        const read = await answer.json();
        if (read.kind !== "Fleet") throw new Error("what was answered is no fleet");
        etag = answer.headers.get("ETag");
        trouble = "";
        take(read);
      } else {
        const said = await answer.text();
        trouble = `not read: ${said.slice(0, 200).trim() || answer.status}`;
      }
      readAt = Date.now();
    } catch (error) {
      trouble = fleet ? "berth ui does not answer" : `nothing can be read: ${error.message}`;
    }
    state();
  }

  function take(read) {
    const top = list.scrollTop;
    fleet = prepare(read);
    notices();
    badges();
    lay();
    list.scrollTop = top;
    paint();
    if (!side.hidden) details();
  }

  async function follow() {
    if (!document.hidden) await refresh();
    setTimeout(follow, EVERY);
  }

  // ---- events -------------------------------------------------------------------------------------------------------

  function route() {
    const [name, query] = location.hash.slice(1).split("?");
    if (name === "main") return;
    const next = Object.hasOwn(PAGES, name) ? name : "tree";
    if (next !== page) {
      only = null;
      side.hidden = true;
      list.scrollTop = 0;
    }
    page = next;
    const asked = new URLSearchParams(query ?? "").get("q");
    if (asked !== null) {
      filter.value = asked;
      words = split(asked);
    }
    for (const link of document.querySelectorAll("nav a")) {
      if (link.dataset.page === page) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    document.title = `Berth: ${page}`;
    lay();
  }

  const split = text => text.toLowerCase().split(/\s+/).filter(Boolean);

  filter.addEventListener("input", () => {
    words = split(filter.value);
    list.scrollTop = 0;
    for (const key of [...folds.keys()]) if (key.endsWith(" filtered")) folds.delete(key);
    lay();
  });
  filter.addEventListener("keydown", event => {
    if (event.key === "Escape") {
      if (filter.value) {
        filter.value = "";
        filter.dispatchEvent(new Event("input"));
      } else list.focus();
      event.preventDefault();
    } else if (event.key === "ArrowDown" || event.key === "Enter") {
      list.focus();
      if (page === "hosts") move_cell(0, 0);
      else move(1);
      event.preventDefault();
    }
  });

  at("legend").addEventListener("click", event => {
    const button = event.target.closest("button");
    if (!button) return;
    only = only === button.dataset.only ? null : button.dataset.only;
    list.scrollTop = 0;
    lay();
  });

  list.addEventListener("scroll", paint, { passive: true });
  list.addEventListener("click", event => {
    const cell = event.target.closest("[data-host]");
    if (cell) {
      activate(cell.dataset.host);
      return details();
    }
    const element = event.target.closest(".row");
    const row = element && view.rows[Number(element.dataset.index)];
    if (!row || row.head || row.items) return;
    active[page] = row.key;
    if (event.target.dataset.fold !== undefined) return fold(row, !row.open);
    mark();
    details();
  });
  list.addEventListener("dblclick", event => {
    const element = event.target.closest(".row");
    const row = element && view.rows[Number(element.dataset.index)];
    if (row && row.node && row.node.children.length && event.target.dataset.fold === undefined) fold(row, !row.open);
  });

  list.addEventListener("keydown", event => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const rows_in_sight = Math.max(1, Math.floor(list.clientHeight / ROW) - 1);
    const index = view.rows.findIndex(row => row.key === active[page]);
    const row = view.rows[index];
    const keys = {
      ArrowDown: () => (page === "hosts" ? move_cell(1, 0) : move(1)),
      ArrowUp: () => (page === "hosts" ? move_cell(-1, 0) : move(-1)),
      PageDown: () => (page === "hosts" ? move_cell(rows_in_sight, 0) : move(rows_in_sight)),
      PageUp: () => (page === "hosts" ? move_cell(-rows_in_sight, 0) : move(-rows_in_sight)),
      Home: () => {
        if (page === "hosts") return move_cell(-view.rows.length, -Infinity);
        active[page] = null;
        move(1);
      },
      End: () => {
        if (page === "hosts") return move_cell(view.rows.length, 0);
        active[page] = null;
        move(-1);
      },
      ArrowRight: () => {
        if (page === "hosts") return move_cell(0, 1);
        if (row && row.node && row.node.children.length) row.open ? move(1) : fold(row, true);
      },
      ArrowLeft: () => {
        if (page === "hosts") return move_cell(0, -1);
        if (!row || !row.node) return;
        if (row.open) return fold(row, false);
        const above = view.rows.findIndex(other => other.key === row.above);
        if (above >= 0) activate(row.above, above);
      },
      Enter: () => details(),
      " ": () => details(),
      Escape: () => { side.hidden = true; },
    };
    if (!Object.hasOwn(keys, event.key)) return;
    keys[event.key]();
    event.preventDefault();
  });

  // Whoever comes by keyboard is at once somewhere.
  list.addEventListener("focus", () => {
    if (!fleet || !list.matches(":focus-visible")) return;
    if (page === "hosts") {
      if (!view.places.has(active.hosts)) move_cell(0, 0);
    } else if (!view.rows.some(row => row.key === active[page])) move(1);
  });

  document.addEventListener("keydown", event => {
    const typing = event.target.closest && event.target.closest("input, textarea, select");
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
      filter.focus();
      filter.select();
      event.preventDefault();
    } else if (event.key === "Escape" && !typing && !side.hidden) {
      side.hidden = true;
      list.focus();
    }
  });

  at("close").addEventListener("click", () => {
    side.hidden = true;
    list.focus();
  });
  at("skip").addEventListener("click", event => {
    event.preventDefault();
    list.focus();
  });
  addEventListener("hashchange", route);
  new ResizeObserver(() => (page === "hosts" ? lay() : paint())).observe(list);
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) refresh();
  });

  route();
  state();
  follow();
})();
