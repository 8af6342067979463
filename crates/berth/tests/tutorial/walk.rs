//! A page, read from its beginning to its end by somebody who does what it says.

use std::collections::{BTreeMap, VecDeque};

use crate::pages::{Block, blocks, root};
use crate::shell::Shell;

/// Something that the page shows and that is to be done.
struct Deed {
    place: String,
    section: String,
    what: What,
}

enum What {
    /// A manifest to apply.
    Apply(String),
    /// A command to run.
    Run(String),
}

/// How far the page was carried out.
pub struct Walk {
    page: String,
    deeds: VecDeque<Deed>,
    texts: Vec<Block>,
}

impl Walk {
    /// At the beginning of a page of the book.
    pub fn of(page: &str) -> Self {
        let (blocks, _) = blocks(&root().join("book/src").join(page));
        let mut deeds = VecDeque::new();
        for block in &blocks {
            let deed = |what| Deed { place: block.place.clone(), section: name(&block.section), what };
            match block.language.as_str() {
                "yaml" => deeds.push_back(deed(What::Apply(block.lines.join("\n")))),
                // Elsewhere than here, commands are one.
                "sh" if block.commands().iter().any(|command| command.starts_with("cd ")) => {
                    deeds.push_back(deed(What::Run(block.commands().join("\n"))));
                }
                "sh" => deeds.extend(block.commands().into_iter().map(|command| deed(What::Run(command)))),
                _ => {}
            }
        }
        let texts = blocks.into_iter().filter(|block| block.language == "text").collect();
        Self { page: page.to_owned(), deeds, texts }
    }

    /// Puts what the reader really has in the place of what the page made up, in all manifests that are left.
    pub fn put(&mut self, own: &str, made_up: &str) {
        let manifests = self.deeds.iter_mut().filter_map(|deed| match &mut deed.what {
            What::Apply(manifest) => Some(manifest),
            What::Run(_) => None,
        });
        replace(manifests, made_up, own).unwrap_or_else(|| panic!("{}: no manifest has {made_up}", self.page));
    }

    /// Puts a name that was generated in the place of the one that the page shows, in all commands that are left.
    pub fn name(&mut self, generated: &str, shown: &str) {
        let form = |name: &str| name.split('-').map(str::len).collect::<Vec<_>>();
        assert_eq!(form(generated), form(shown), "{}: names are like {generated}, not {shown}", self.page);
        let commands = self.deeds.iter_mut().filter_map(|deed| match &mut deed.what {
            What::Run(command) => Some(command),
            What::Apply(_) => None,
        });
        replace(commands, shown, generated).unwrap_or_else(|| panic!("{}: no command has {shown}", self.page));
    }

    /// Carries out the next deed, which is in this section.
    fn next(&mut self, shell: &Shell, section: &str) -> String {
        let deed = self.deeds.pop_front().unwrap_or_else(|| panic!("{}: nothing is left for {section:?}", self.page));
        assert_eq!(deed.section, section, "{} comes first", deed.place);
        let script = match deed.what {
            What::Apply(manifest) => {
                std::fs::write(shell.home().join("manifest.yaml"), manifest).unwrap();
                "kubectl apply -f ~/manifest.yaml".to_owned()
            }
            What::Run(command) => command,
        };
        let output = tokio::task::block_in_place(|| shell.run(&script));
        let (said, why) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{}: {script}\n{said}{why}", deed.place);
        said.into_owned()
    }

    fn is_next(&self, section: &str, fits: impl Fn(&What) -> bool) -> bool {
        self.deeds.front().is_some_and(|deed| deed.section == section && fits(&deed.what))
    }

    /// Applies the manifests that come next in a section; there is one at least.
    pub fn manifests(&mut self, shell: &Shell, section: &str) {
        self.next_is(section, "manifest", |what| matches!(what, What::Apply(_)));
        while self.is_next(section, |what| matches!(what, What::Apply(_))) {
            self.next(shell, section);
        }
    }

    /// Runs the next command of a section, which begins like this, and says what it printed.
    pub fn command(&mut self, shell: &Shell, section: &str, begins: &str) -> String {
        self.next_is(section, begins, |what| matches!(what, What::Run(command) if command.starts_with(begins)));
        self.next(shell, section)
    }

    fn next_is(&self, section: &str, what: &str, fits: impl Fn(&What) -> bool) {
        let next = self.deeds.front().map_or("its end", |deed| &deed.place);
        assert!(self.is_next(section, fits), "{}: no {what} comes next in {section:?} but {next}", self.page);
    }

    /// Leaves out what is left of a section.
    pub fn pass(&mut self, section: &str) {
        assert!(self.is_next(section, |_| true), "{}: nothing is left in {section:?}", self.page);
        while self.is_next(section, |_| true) {
            self.deeds.pop_front();
        }
    }

    /// The keys and values that a section shows as text.
    pub fn shown(&self, section: &str) -> BTreeMap<String, String> {
        serde_saphyr::from_str(&self.lines(section).join("\n")).unwrap()
    }

    /// The lines that a section shows as text.
    pub fn lines(&self, section: &str) -> &[String] {
        let text = self.texts.iter().find(|block| name(&block.section) == section);
        &text.unwrap_or_else(|| panic!("{}: no text in {section:?}", self.page)).lines
    }

    /// Nothing of the page is left.
    pub fn end(self) {
        let left: Vec<&String> = self.deeds.iter().map(|deed| &deed.place).collect();
        assert!(left.is_empty(), "not carried out: {left:?}");
    }
}

/// Replaces a text wherever it stands; nothing where it does not.
fn replace<'t>(texts: impl Iterator<Item = &'t mut String>, old: &str, new: &str) -> Option<()> {
    let found: Vec<&mut String> = texts.filter(|text| text.contains(old)).collect();
    let any = !found.is_empty();
    found.into_iter().for_each(|text| *text = text.replace(old, new));
    any.then_some(())
}

/// A heading without its marks.
fn name(heading: &str) -> String {
    heading.trim_start_matches('#').trim().to_owned()
}
