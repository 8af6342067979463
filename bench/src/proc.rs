//! What the kernel knows of a process, of a binary and of the machine.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde::Serialize;

/// User-space clock ticks per second on Linux.
const TICKS: f64 = 100.0;

/// Memory of a process in KiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Memory {
    /// Resident now (`VmRSS`).
    pub rss_kib: u64,
    /// Peak since start (`VmHWM`).
    pub peak_kib: u64,
}

/// Reads the memory lines of `/proc/<pid>/status`.
pub fn memory(pid: u32) -> Result<Memory> {
    let text = read(&format!("/proc/{pid}/status"))?;
    parse_memory(&text).with_context(|| format!("process {pid} shows no memory (it ended)"))
}

fn parse_memory(status: &str) -> Option<Memory> {
    let kib = |name: &str| {
        status.lines().find_map(|l| l.strip_prefix(name)).and_then(|r| r.split_whitespace().next()?.parse().ok())
    };
    Some(Memory { rss_kib: kib("VmRSS:")?, peak_kib: kib("VmHWM:")? })
}

/// User plus system seconds a process has used, all threads.
pub fn cpu_seconds(pid: u32) -> Result<f64> {
    let text = read(&format!("/proc/{pid}/stat"))?;
    parse_cpu(&text).with_context(|| format!("reading the CPU time of process {pid}"))
}

fn parse_cpu(stat: &str) -> Option<f64> {
    // The second field is the command in brackets and may hold spaces and brackets itself.
    let rest = stat.rsplit_once(')')?.1;
    let mut fields = rest.split_whitespace().skip(11);
    let ticks: u64 = fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?;
    Some(ticks as f64 / TICKS)
}

/// So much of a core, between two looks, is work.
const WORK: f64 = 0.2;

/// Tells when a process was last at work. Whoever reads what a server streams sends nothing that could be counted.
pub struct Busy {
    pid: u32,
    used: f64,
    looked: Instant,
    last_us: Option<i64>,
}

impl Busy {
    /// Looks for the first time.
    pub fn of(pid: u32) -> Result<Self> {
        Ok(Self { pid, used: cpu_seconds(pid)?, looked: Instant::now(), last_us: None })
    }

    /// Looks again; when it was last at work, in microseconds since the epoch.
    pub fn look(&mut self, now_us: i64) -> Result<Option<i64>> {
        let (used, looked) = (cpu_seconds(self.pid)?, Instant::now());
        if used - self.used >= WORK * looked.duration_since(self.looked).as_secs_f64() {
            self.last_us = Some(now_us);
        }
        (self.used, self.looked) = (used, looked);
        Ok(self.last_us)
    }
}

/// The load average of the last minute.
pub fn load_average() -> Result<f64> {
    let text = read("/proc/loadavg")?;
    text.split_whitespace().next().and_then(|t| t.parse().ok()).context("reading /proc/loadavg")
}

/// Processor time of the whole machine since it started, in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Processors {
    busy: u64,
    stolen: u64,
}

impl Processors {
    /// What the machine has used until now, and what others on the same hardware were given while it wanted it.
    pub fn now() -> Result<Self> {
        parse_processors(&read("/proc/stat")?).context("reading /proc/stat")
    }

    /// The share of the time that was wanted since `earlier` and went to others, in percent.
    pub fn stolen_percent(self, earlier: Self) -> f64 {
        let (busy, stolen) = (self.busy.saturating_sub(earlier.busy), self.stolen.saturating_sub(earlier.stolen));
        stolen as f64 * 100.0 / (busy + stolen).max(1) as f64
    }
}

fn parse_processors(stat: &str) -> Option<Processors> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Vec<u64> = line.split_whitespace().map_while(|word| word.parse().ok()).collect();
    // The fourth and fifth are those in which nothing was wanted.
    let [user, nice, system, _, _, interrupts, soft, stolen] = *ticks.first_chunk()?;
    Some(Processors { busy: user + nice + system + interrupts + soft, stolen })
}

fn read(path: &str) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("reading {path}"))
}

/// What a program file is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Binary {
    /// Its path as given.
    pub path: String,
    /// Bytes on disk.
    pub bytes: u64,
    /// Bytes after stripping, when it could be stripped or already is.
    pub stripped_bytes: Option<u64>,
    /// Whether it needs no dynamic loader.
    pub is_static: bool,
}

/// Looks at a program; a file with symbols is stripped into `scratch` to learn its size.
pub fn binary(path: &Path, scratch: &Path) -> Result<Binary> {
    let data = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
    let elf = elf(&data).with_context(|| format!("reading the ELF header of {}", path.display()))?;
    let bytes = data.len() as u64;
    let stripped_bytes = if elf.has_symbols { strip(path, &scratch.join("stripped")) } else { Some(bytes) };
    Ok(Binary { path: path.display().to_string(), bytes, stripped_bytes, is_static: !elf.has_interpreter })
}

fn strip(path: &Path, out: &Path) -> Option<u64> {
    let done = std::process::Command::new("strip").arg("-s").arg("-o").arg(out).arg(path).output().ok()?;
    let size = done.status.success().then(|| std::fs::metadata(out).ok().map(|m| m.len())).flatten();
    // The scratch copy is not needed any more; a leftover goes with the work directory.
    let _ = std::fs::remove_file(out);
    size
}

struct Elf {
    has_symbols: bool,
    has_interpreter: bool,
}

fn elf(data: &[u8]) -> Result<Elf> {
    const INTERPRETER: u32 = 3;
    const SYMBOL_TABLE: u32 = 2;
    if data.get(..6) != Some(b"\x7fELF\x02\x01".as_slice()) {
        bail!("not a 64-bit little-endian ELF file");
    }
    let u16_at = |o: usize| Some(u16::from_le_bytes(data.get(o..o + 2)?.try_into().ok()?) as usize);
    let u32_at = |o: usize| Some(u32::from_le_bytes(data.get(o..o + 4)?.try_into().ok()?));
    let u64_at = |o: usize| usize::try_from(u64::from_le_bytes(data.get(o..o + 8)?.try_into().ok()?)).ok();
    let header = || Some((u64_at(32)?, u64_at(40)?, u16_at(54)?, u16_at(56)?, u16_at(58)?, u16_at(60)?));
    let (segments, sections, segment_size, segment_count, section_size, section_count) =
        header().context("the file ends inside its header")?;
    let kind = |start: usize, size: usize, n: usize, inner: usize| {
        u32_at(start.saturating_add(size.saturating_mul(n)).saturating_add(inner))
    };
    Ok(Elf {
        has_interpreter: (0..segment_count).any(|n| kind(segments, segment_size, n, 0) == Some(INTERPRETER)),
        has_symbols: (0..section_count).any(|n| kind(sections, section_size, n, 4) == Some(SYMBOL_TABLE)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resident_and_peak_memory_are_read_apart() {
        let m = parse_memory("Name:\tx\nVmHWM:\t  2048 kB\nVmRSS:\t  1024 kB\n").unwrap();
        assert_eq!(m, Memory { rss_kib: 1024, peak_kib: 2048 });
        assert_eq!(parse_memory("Name:\tzombie\n"), None);
    }

    #[test]
    fn a_command_with_brackets_does_not_shift_the_cpu_fields() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194560 100 0 0 0 150 50 0 0 20 0 1 0 100 1 1";
        assert_eq!(parse_cpu(stat), Some(2.0));
    }

    #[test]
    fn time_that_went_to_others_is_a_share_of_what_was_wanted() {
        let at = |line: &str| parse_processors(&format!("cpu  {line}\ncpu0 1 1 1 1 1 1 1 1\n")).unwrap();
        let (earlier, later) = (at("100 10 50 900 5 0 1 20 0 0"), at("150 10 70 990 5 0 6 45 0 0"));
        assert_eq!(later.stolen_percent(earlier), 25.0);
        assert_eq!(later.stolen_percent(later), 0.0);
        assert_eq!(parse_processors("intr 1 2 3"), None);
        Processors::now().unwrap();
    }

    #[test]
    fn this_very_process_can_be_measured() {
        let me = std::process::id();
        let m = memory(me).unwrap();
        assert!(m.rss_kib > 100 && m.peak_kib >= m.rss_kib);
        assert!(cpu_seconds(me).unwrap() >= 0.0);
        assert!(load_average().unwrap() >= 0.0);
    }

    #[test]
    fn this_test_binary_has_a_size_and_a_text_file_has_not() {
        let dir = tempfile::tempdir().unwrap();
        let b = binary(&std::env::current_exe().unwrap(), dir.path()).unwrap();
        assert!(b.bytes > 0 && b.stripped_bytes.is_none_or(|s| s <= b.bytes));
        let text = dir.path().join("text");
        std::fs::write(&text, "hello").unwrap();
        assert!(binary(&text, dir.path()).is_err());
    }
}
