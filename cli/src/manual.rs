//! Man pages from the command line's own description. The sections of a page are those of its help text.
//!
//! A help text has paragraphs, and sections such as `Exit status:` with indented lines. A section with these names
//! becomes one of the page, as people look for them there. The other paragraphs are notes.

use std::fs;
use std::io;
use std::path::Path;

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

/// Sections that are lists of a term and its meaning.
const LISTS: [&str; 2] = ["Exit status", "Environment"];
/// A section of lines that must not be joined.
const EXAMPLES: &str = "Examples";
/// The section of paragraphs without a title.
const NOTES: &str = "Notes";

/// Writes the page of the command, and of each subcommand, into a directory.
pub(super) fn write_pages(command: Command, directory: &Path) -> io::Result<()> {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    write_page(&command, "", directory)
}

/// The page of the command alone.
pub(super) fn page(command: &Command) -> io::Result<Vec<u8>> {
    page_with(command, &own_help(command))
}

/// A subcommand without a help text has that of its parent.
fn write_page(command: &Command, of_parent: &str, directory: &Path) -> io::Result<()> {
    let own = own_help(command);
    let help = if own.is_empty() { of_parent } else { &own };
    for subcommand in command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set()) {
        write_page(subcommand, help, directory)?;
    }
    fs::write(directory.join(Man::new(command.clone()).get_filename()), page_with(command, help)?)
}

fn own_help(command: &Command) -> String {
    command.get_after_long_help().or_else(|| command.get_after_help()).map(ToString::to_string).unwrap_or_default()
}

fn page_with(command: &Command, help: &str) -> io::Result<Vec<u8>> {
    let man = Man::new(command.clone()).source(concat!("modex ", env!("CARGO_PKG_VERSION")));
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.get_subcommands().any(|subcommand| !subcommand.is_hide_set()) {
        man.render_subcommands_section(&mut page)?;
    }
    let mut sections = sections(help);
    sections.sort_by_key(Section::place);
    let mut roff = Roff::default();
    sections.iter().for_each(|section| section.render(&mut roff));
    roff.to_writer(&mut page)?;
    man.render_version_section(&mut page)?;
    Ok(page)
}

/// A part of a help text.
#[derive(Debug, PartialEq, Eq)]
struct Section<'a> {
    title: &'a str,
    lines: Vec<&'a str>,
}

/// The sections of a help text. Paragraphs without a title join the section "Notes".
fn sections(help: &str) -> Vec<Section<'_>> {
    let mut sections: Vec<Section<'_>> = Vec::new();
    for paragraph in help.split("\n\n") {
        let mut lines: Vec<&str> = paragraph.lines().collect();
        let title = lines.first().and_then(|first| first.strip_suffix(':')).filter(|_| lines.len() > 1);
        let title = title.filter(|_| lines.iter().skip(1).all(|line| line.starts_with("  ")));
        if title.is_some() {
            lines.remove(0);
        }
        let title = title.unwrap_or(NOTES);
        match sections.iter_mut().find(|section| section.title == title) {
            _ if lines.is_empty() => {}
            Some(section) => section.lines.extend([""].into_iter().chain(lines)),
            None => sections.push(Section { title, lines }),
        }
    }
    sections
}

impl Section<'_> {
    /// The place of a section in the usual order of pages.
    fn place(&self) -> usize {
        match self.title {
            "Exit status" => 0,
            "Environment" => 1,
            NOTES => 3,
            EXAMPLES => 4,
            _ => 2,
        }
    }

    fn render(&self, roff: &mut Roff) {
        let title = self.title.split(" (").next().unwrap_or(self.title);
        roff.control("SH", [title.to_uppercase().as_str()]);
        if LISTS.contains(&self.title) {
            return self.lines.iter().for_each(|line| render_item(line, roff));
        }
        let is_fixed = self.title == EXAMPLES || self.title.starts_with("JSON");
        if is_fixed {
            roff.control("nf", []);
        }
        for line in &self.lines {
            match line.strip_prefix("  ").unwrap_or(line) {
                "" => drop(roff.control("PP", [])),
                line => drop(roff.text([roman(line)])),
            }
        }
        if is_fixed {
            roff.control("fi", []);
        }
    }
}

/// A line of a list: a term, two spaces and its meaning. A line that is indented further continues the meaning.
fn render_item(line: &str, roff: &mut Roff) {
    let text = line.strip_prefix("  ").unwrap_or(line);
    if text.starts_with(' ') {
        roff.text([roman(text.trim_start())]);
        return;
    }
    let (term, meaning) = text.split_once("  ").unwrap_or((text, ""));
    roff.control("TP", []).text([bold(term)]);
    if !meaning.is_empty() {
        roff.text([roman(meaning.trim_start())]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELP: &str = "Examples:\n  modex it\n  .it\n\nExit status:\n  0      Good\n  other\n         Bad\n\nA note:\nof two\n\n\
                        Another.\n\nSignals:\n  None.";

    #[test]
    fn a_help_text_is_cut_into_titles_and_notes() {
        let found = sections(HELP);
        let titles: Vec<_> = found.iter().map(|section| (section.title, section.lines.len())).collect();
        assert_eq!(titles, [("Examples", 2), ("Exit status", 3), ("Notes", 4), ("Signals", 1)]);
        assert!(sections("").is_empty());
    }

    #[test]
    fn a_page_has_the_sections_of_its_help_and_the_examples_last() {
        let command = Command::new("it").version("1").after_long_help(HELP);
        let page = String::from_utf8(page(&command).unwrap()).unwrap();
        let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("no {text} in {page}"));
        assert!(at(".SH \"EXIT STATUS\"") < at(".SH SIGNALS") && at(".SH NOTES") < at(".SH EXAMPLES"), "{page}");
        assert!(page.contains(".TP\n\\fBother\\fR\nBad\n") && page.contains(".nf\nmodex it\n\\&.it\n.fi\n"), "{page}");
    }
}
