//! What `/proc` says about this process, read at each scrape; on systems without it, nothing.

use std::fmt::Error;
use std::fs;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// Linux reports times to user space in this unit on every architecture we build for (`USER_HZ`).
const TICKS_PER_SECOND: f64 = 100.0;

#[derive(Debug)]
pub(super) struct Process;

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), Error> {
        let stat = fs::read_to_string("/proc/self/stat").ok().and_then(|text| Stat::parse(&text));
        if let Some(stat) = stat {
            let cpu = ConstCounter::new(stat.cpu_seconds);
            cpu.encode(encoder.encode_descriptor(
                "process_cpu_seconds",
                "User and system CPU time spent",
                None,
                cpu.metric_type(),
            )?)?;
            gauge(&mut encoder, "process_threads", "Threads of the process", stat.threads)?;
            let boot = fs::read_to_string("/proc/stat").ok().and_then(|text| boot_time(&text));
            if let Some(boot) = boot {
                let start = boot + stat.start_seconds;
                gauge(&mut encoder, "process_start_time_seconds", "Start of the process since the epoch", start)?;
            }
        }
        if let Some(rss) = fs::read_to_string("/proc/self/status").ok().and_then(|text| resident(&text)) {
            gauge(&mut encoder, "process_resident_memory_bytes", "Memory held in RAM", rss)?;
        }
        if let Ok(entries) = fs::read_dir("/proc/self/fd") {
            // The directory's own descriptor is among them.
            let open = u32::try_from(entries.count().saturating_sub(1)).unwrap_or(u32::MAX);
            gauge(&mut encoder, "process_open_fds", "Open file descriptors", f64::from(open))?;
        }
        Ok(())
    }
}

fn gauge(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: f64) -> Result<(), Error> {
    let gauge = ConstGauge::new(value);
    gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)
}

#[derive(Debug, PartialEq)]
struct Stat {
    cpu_seconds: f64,
    threads: f64,
    start_seconds: f64,
}

impl Stat {
    fn parse(text: &str) -> Option<Self> {
        // The second field is the command in parentheses and may itself hold spaces and parentheses.
        let (_, rest) = text.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        // proc(5) counts from 1 and `rest` starts with field 3.
        let number = |field: usize| fields.get(field.checked_sub(3)?)?.parse::<f64>().ok();
        Some(Self {
            cpu_seconds: (number(14)? + number(15)?) / TICKS_PER_SECOND,
            threads: number(20)?,
            start_seconds: number(22)? / TICKS_PER_SECOND,
        })
    }
}

fn boot_time(stat: &str) -> Option<f64> {
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

fn resident(status: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_with_spaces_and_parentheses_does_not_shift_the_fields() {
        let text = "42 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 250 50 0 0 20 0 7 0 1234 99 88";
        let stat = Stat::parse(text).expect("a stat line");
        assert_eq!(stat, Stat { cpu_seconds: 3.0, threads: 7.0, start_seconds: 12.34 });
        assert_eq!(Stat::parse("42 (a"), None);
        assert_eq!(Stat::parse("42 (a) S 1"), None);
    }

    #[test]
    fn kibibytes_become_bytes_and_nonsense_nothing() {
        assert_eq!(resident("Name:\tx\nVmRSS:\t     2 kB\n"), Some(2048.0));
        assert_eq!(resident("VmRSS: many kB"), None);
        assert_eq!(boot_time("cpu 1\nbtime 1700000000\n"), Some(1_700_000_000.0));
    }
}
