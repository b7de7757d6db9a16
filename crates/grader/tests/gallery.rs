//! `cargo gallery`: proves that each bug of the gallery is caught by its check, under its name, and by no check
//! before it; that each right server passes; and that each exercise starts red.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use grader::checks::EXERCISES;
use grader::gallery::{self, Claim, Exhibit, Judged, Outcome, Problem, Scratch, Tally};
use grader::grading::page::{Heading, page};
use grader::grading::{Subject, Verdict};

const HELP: &str = "cargo gallery [FILTER]... [OPTION]...

FILTER        an exercise, or a part of a patch's path: `ex02`, `bugs/`, `set-not-rebuilt`
--pages DIR   keep each failure page as a text file in DIR
--repeat N    grade everything N times
--jobs N      grade N programs at a time (default: 2 for each core)
--times       print what each check of a right server took
--write       write the table into solutions/GALLERY.md, and the failure pages that the book shows";

/// Programs that are graded at a time, for each core. A check mostly waits for a server to fall asleep, or makes sure
/// that it sleeps; and it must be exact on a busy machine anyway.
const JOBS_A_CORE: usize = 2;

struct Options {
    filters: Vec<String>,
    pages: Option<PathBuf>,
    repeat: usize,
    jobs: usize,
    times: bool,
    write: bool,
}

fn main() -> ExitCode {
    let options = match options(std::env::args().skip(1)) {
        Ok(Some(options)) => options,
        Ok(None) => {
            println!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("{error}\n\n{HELP}");
            return ExitCode::from(2);
        }
    };
    match run(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

/// `None`: help was asked for.
fn options(args: impl Iterator<Item = String>) -> Result<Option<Options>> {
    let mut options = Options {
        filters: Vec::new(),
        pages: None,
        repeat: 1,
        jobs: JOBS_A_CORE * std::thread::available_parallelism().map_or(1, usize::from),
        times: false,
        write: false,
    };
    let mut args = args;
    while let Some(arg) = args.next() {
        let mut value = || args.next().with_context(|| format!("{arg} needs a value"));
        match arg.as_str() {
            "--help" | "-h" => return Ok(None),
            "--pages" => options.pages = Some(value()?.into()),
            "--repeat" => options.repeat = value()?.parse().context("--repeat")?,
            "--jobs" => options.jobs = value()?.parse::<usize>().context("--jobs")?.max(1),
            "--times" => options.times = true,
            "--write" => options.write = true,
            filter if !filter.starts_with('-') => options.filters.push(arg),
            _ => bail!("there is no option {arg}"),
        }
    }
    Ok(Some(options))
}

/// Returns whether all claims hold.
fn run(options: &Options) -> Result<bool> {
    let begin = Instant::now();
    let exact = std::env::var_os("READINESS_EXACT").is_some_and(|value| value == "1");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()?;
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("gallery");
    // Checks with a thousand clients, several at a time.
    grader::probe::raise_descriptor_limit(u64::from(u16::MAX));

    let (all, mut problems) = gallery::collect(&root, EXERCISES);
    let files = all.iter().map(|exhibit| &exhibit.file);
    let files = files.chain(problems.iter().map(|problem| &problem.file));
    find_each(&options.filters, &files.collect::<Vec<_>>())?;
    let scratch = Scratch::new(&root, &folder);
    problems.extend(scratch.write(&all)?);
    let unapplied = |exhibit: &Exhibit| problems.iter().any(|problem| problem.file == exhibit.file);
    let chosen: Vec<&Exhibit> = all
        .iter()
        .filter(|exhibit| is_chosen(&exhibit.file, &options.filters) && !unapplied(exhibit))
        .collect();
    let packages: Vec<String> = chosen.iter().map(|exhibit| exhibit.package()).collect();
    println!(
        "building {} programs in {}",
        packages.len(),
        folder.display()
    );
    let not_built = match packages.is_empty() {
        true => Default::default(),
        false => scratch.build(&packages)?,
    };
    let built = begin.elapsed();
    problems.extend(
        chosen
            .iter()
            .filter(|exhibit| not_built.contains(&exhibit.package()))
            .map(|exhibit| Problem {
                file: exhibit.file.clone(),
                what: "it does not compile".to_owned(),
            }),
    );
    let chosen: Vec<&Exhibit> = chosen
        .into_iter()
        .filter(|exhibit| !not_built.contains(&exhibit.package()))
        .collect();

    let mut tally = Tally::default();
    let mut notes = Vec::new();
    let mut pages = BTreeMap::new();
    for round in 1..=options.repeat {
        if options.repeat > 1 {
            println!("\nround {round} of {}", options.repeat);
        }
        for (exhibit, judged, outcome) in grade(&chosen, &scratch, options)? {
            tally.count(exhibit, &outcome);
            if let Some(note) = note(exhibit, &judged, &outcome) {
                println!("\n{note}");
            }
            pages.extend(
                failure_page(exhibit, &judged).map(|page| (exhibit.package() + ".txt", page)),
            );
        }
    }

    let whole = options.filters.is_empty();
    problems.retain(|problem| whole || is_chosen(&problem.file, &options.filters));
    let holds = problems.is_empty() && tally.broken == 0 && (tally.unproven == 0 || !exact);
    problems.extend(pages_of_the_book(&root, &pages, options.write && holds)?);
    if whole {
        problems.extend(table(&root, &all, options.write && holds)?);
        notes.extend(gallery::unproven_checks(&all, EXERCISES));
    }
    for note in &notes {
        println!("\n{note}");
    }
    if !problems.is_empty() {
        println!();
    }
    for problem in &problems {
        println!("{problem}");
    }
    println!(
        "\n{} bugs caught, {} right servers passed, {} exercises start red; {} claims broken, {} not judged, \
         {} other problems; {:.0} s, {:.0} of them to build",
        tally.bugs,
        tally.right,
        tally.shipped,
        tally.broken,
        tally.unproven,
        problems.len(),
        begin.elapsed().as_secs_f64(),
        built.as_secs_f64()
    );
    Ok(holds && problems.is_empty())
}

/// Each filter must choose something: nothing to be graded would look as if all claims hold.
fn find_each(filters: &[String], files: &[&PathBuf]) -> Result<()> {
    for filter in filters {
        let filter = std::slice::from_ref(filter);
        if !files.iter().any(|file| is_chosen(file, filter)) {
            bail!(
                "no path in the gallery contains `{}`; `ex02`, `bugs/` and `set-not-rebuilt` are filters",
                filter[0]
            );
        }
    }
    Ok(())
}

fn is_chosen(file: &Path, filters: &[String]) -> bool {
    let file = file.display().to_string();
    filters.is_empty() || filters.iter().any(|filter| file.contains(filter.as_str()))
}

type Graded<'a> = (&'a Exhibit, Vec<Judged>, Outcome);

/// Grades the programs, several at a time, and prints their rows in the order of the gallery.
fn grade<'a>(
    chosen: &[&'a Exhibit],
    scratch: &Scratch,
    options: &Options,
) -> Result<Vec<Graded<'a>>> {
    println!("{}", gallery::titles());
    let next = AtomicUsize::new(0);
    let done: Mutex<(BTreeMap<usize, Graded<'a>>, usize)> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..options.jobs {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(exhibit) = chosen.get(index) else {
                        break;
                    };
                    let judged =
                        gallery::judge(exhibit, &Subject::new(scratch.program(&exhibit.package())));
                    let outcome = gallery::prove(exhibit, &judged);
                    let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
                    let (graded, printed) = &mut *done;
                    graded.insert(index, (exhibit, judged, outcome));
                    while let Some((exhibit, judged, outcome)) = graded.get(printed) {
                        println!("{}", gallery::row(exhibit, judged, outcome));
                        *printed += 1;
                    }
                }
            });
        }
    });
    let (graded, _) = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    let graded: Vec<_> = graded.into_values().collect();
    if options.times {
        for (exhibit, judged, _) in &graded {
            if matches!(exhibit.claim, Claim::Solution | Claim::Variant(_)) {
                println!("\n{}", gallery::times(exhibit, judged));
            }
        }
    }
    if let Some(folder) = &options.pages {
        for (exhibit, judged, _) in &graded {
            let Some(text) = failure_page(exhibit, judged) else {
                continue;
            };
            let file = folder.join(exhibit.package()).with_extension("txt");
            std::fs::create_dir_all(folder)?;
            std::fs::write(&file, text).with_context(|| format!("write {}", file.display()))?;
        }
    }
    Ok(graded)
}

/// What the reader of the table needs to know of a claim that does not hold.
fn note(exhibit: &Exhibit, judged: &[Judged], outcome: &Outcome) -> Option<String> {
    let file = exhibit.file.display();
    match outcome {
        Outcome::Holds => None,
        Outcome::Unproven(why) => Some(format!("{file}: {why}")),
        Outcome::Broken(why) => {
            let page = failure_page(exhibit, judged).unwrap_or_default();
            Some(format!("{file}: {why}\n\n{page}"))
        }
    }
}

/// The page of the check that failed.
fn failure_page(exhibit: &Exhibit, judged: &[Judged]) -> Option<String> {
    let checks = exhibit.exercise.checks;
    judged.iter().find_map(|judged| match &judged.verdict {
        Verdict::Failed(finding) => {
            let heading = Heading {
                exercise: exhibit.exercise.name,
                number: judged.check + 1,
                of: checks.len(),
                check: checks[judged.check].name,
            };
            Some(page(&heading, finding, false))
        }
        _ => None,
    })
}

/// The failure pages that the book shows: writes them, or compares with what is there what does not change from run to
/// run: the check, the bug, and where to read on.
fn pages_of_the_book(
    root: &Path,
    pages: &BTreeMap<String, String>,
    write: bool,
) -> Result<Vec<Problem>> {
    let lasting = |page: &str| -> Vec<String> {
        let lines: Vec<_> = page.lines().map(str::trim).collect();
        let kept = |line: &&str| line.starts_with("read  ") || line.starts_with("hint  ");
        let head = lines.iter().take(3).copied();
        head.chain(lines.iter().copied().filter(kept))
            .map(str::to_owned)
            .collect()
    };
    let mut problems = Vec::new();
    for (name, page) in pages {
        let file = Path::new("book/src/pages").join(name);
        let Ok(there) = std::fs::read_to_string(root.join(&file)) else {
            continue; // It is not one of those that the book shows.
        };
        if write {
            std::fs::write(root.join(&file), page)
                .with_context(|| format!("write {}", file.display()))?;
        } else if lasting(page) != lasting(&there) {
            problems.push(Problem {
                file,
                what: "it is out of date: run `cargo gallery --write`".to_owned(),
            });
        }
    }
    Ok(problems)
}

/// Writes the page of the book, or compares it with what is there.
fn table(root: &Path, all: &[Exhibit], write: bool) -> Result<Option<Problem>> {
    let file = PathBuf::from("solutions/GALLERY.md");
    let text = gallery::markdown(all);
    if write {
        std::fs::write(root.join(&file), text)
            .with_context(|| format!("write {}", file.display()))?;
        return Ok(None);
    }
    let is_new = std::fs::read_to_string(root.join(&file)).is_ok_and(|there| there == text);
    Ok((!is_new).then_some(Problem {
        file,
        what: "it is out of date: run `cargo gallery --write`".to_owned(),
    }))
}
