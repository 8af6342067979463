//! `berth man`: manual pages, made of the same words as `--help`.

use std::io::Write;
use std::path::Path;

use anyhow::Context;
use clap::CommandFactory;

use crate::cli::Cli;

/// Prints the page of `berth` itself, or writes that and one for each command into a directory.
pub fn man(dir: Option<&Path>) -> anyhow::Result<()> {
    match dir {
        Some(dir) => std::fs::create_dir_all(dir)
            .and_then(|()| clap_mangen::generate_to(Cli::command(), dir))
            .with_context(|| format!("writing to {}", dir.display())),
        None => {
            // Written to memory first, so that a reader who has had enough of a page is one error and not many.
            let mut page = Vec::new();
            let mut berth = Cli::command();
            berth.build();
            clap_mangen::Man::new(berth).render(&mut page)?;
            Ok(std::io::stdout().write_all(&page)?)
        }
    }
}
