//! What the checks found, against what was claimed.

use std::time::{Duration, Instant};

use super::{Claim, Exhibit};
use crate::grading::{Finding, Subject, Verdict, bug};

/// What one check came to.
pub struct Judged {
    /// Its index, from 0.
    pub check: usize,
    /// What it found.
    pub verdict: Verdict,
    /// How long it took.
    pub took: Duration,
}

/// What a claim came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It holds.
    Holds,
    /// Nothing speaks against it, but a check could not judge here, and why.
    Unproven(String),
    /// It does not hold, and why.
    Broken(String),
}

/// Runs the exercise's checks on a program up to the first that fails.
pub fn judge(exhibit: &Exhibit, subject: &Subject) -> Vec<Judged> {
    let mut all = Vec::new();
    for (check, known) in exhibit.exercise.checks.iter().enumerate() {
        let begin = Instant::now();
        let verdict = known.judge(subject);
        let failed = matches!(verdict, Verdict::Failed(_));
        all.push(Judged {
            check,
            verdict,
            took: begin.elapsed(),
        });
        if failed {
            break;
        }
    }
    all
}

/// Compares what the checks found, up to the first that failed, with the claim.
pub fn prove(exhibit: &Exhibit, judged: &[Judged]) -> Outcome {
    let checks = exhibit.exercise.checks;
    let named = |check: usize| format!("check {} `{}`", check + 1, checks[check].name);
    let failed = judged.iter().find_map(|judged| match &judged.verdict {
        Verdict::Failed(finding) => Some((judged.check, finding.as_ref())),
        _ => None,
    });
    let skipped = judged.iter().find_map(|judged| match &judged.verdict {
        Verdict::Skipped(reason) => Some((judged.check, reason)),
        _ => None,
    });
    let found =
        |(check, finding): (usize, &Finding)| format!("{} says {}", named(check), finding.bug.name);

    let wanted = match &exhibit.claim {
        Claim::Caught { check, bug, .. } => Some((*check, *bug)),
        Claim::NotWritten => Some((0, bug::NOT_WRITTEN)),
        Claim::Solution | Claim::Variant(_) => None,
    };
    match (wanted, failed) {
        (None, Some(failed)) => {
            Outcome::Broken(format!("a right server failed: {}", found(failed)))
        }
        (Some((check, bug)), Some(failed)) if (check, bug) != (failed.0, failed.1.bug) => {
            Outcome::Broken(format!(
                "{}; {} must say {}",
                found(failed),
                named(check),
                bug.name
            ))
        }
        (Some((check, _)), None) if skipped.is_none_or(|(skipped, _)| skipped != check) => {
            Outcome::Broken(format!("no check failed; {} must", named(check)))
        }
        _ => match skipped {
            Some((check, reason)) => {
                Outcome::Unproven(format!("{} was skipped: {reason}", named(check)))
            }
            None => Outcome::Holds,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grading::{Bug, Check, Exercise, Run, Trouble, no_suspects};

    fn passes(_: &mut Run) -> Result<(), Trouble> {
        Ok(())
    }

    const fn check(name: &'static str) -> Check {
        Check {
            name,
            run: passes,
            suspects: no_suspects,
        }
    }

    static EXERCISE: Exercise = Exercise {
        name: "ex00",
        checks: &[check("first"), check("second"), check("third")],
    };

    fn exhibit(claim: Claim) -> Exhibit {
        Exhibit {
            exercise: &EXERCISE,
            claim,
            story: String::new(),
            file: "solutions/ex00/bugs/x.patch".into(),
            base: "solutions/ex00".into(),
            patch: None,
        }
    }

    fn judged(verdicts: &[Verdict]) -> Vec<Judged> {
        let verdicts = verdicts.iter().cloned().enumerate();
        verdicts
            .map(|(check, verdict)| Judged {
                check,
                verdict,
                took: Duration::ZERO,
            })
            .collect()
    }

    fn failed(bug: Bug) -> Verdict {
        Verdict::Failed(Box::new(Finding {
            bug,
            story: String::new(),
            steps: Vec::new(),
            calls: Vec::new(),
            blocked: None,
            evidence: Vec::new(),
            divergence: None,
        }))
    }

    fn skipped() -> Verdict {
        Verdict::Skipped("no /proc".to_owned())
    }

    fn broken(why: &str) -> Outcome {
        Outcome::Broken(why.to_owned())
    }

    #[test]
    fn a_bug_is_caught_by_its_check_under_its_name_and_by_nothing_else() {
        let claim = Claim::Caught {
            check: 1,
            bug: bug::SPINS,
            seen: "a#1".to_owned(),
        };
        let bug = exhibit(claim);
        let passed = Verdict::Passed;
        let prove = |verdicts: &[Verdict]| prove(&bug, &judged(verdicts));
        assert_eq!(prove(&[passed.clone(), failed(bug::SPINS)]), Outcome::Holds);
        assert_eq!(
            prove(&[passed.clone(), failed(bug::HUNG)]),
            broken("check 2 `second` says hung; check 2 `second` must say spins")
        );
        assert_eq!(
            prove(&[failed(bug::SPINS)]),
            broken("check 1 `first` says spins; check 2 `second` must say spins")
        );
        assert_eq!(
            prove(&[passed.clone(), passed.clone(), failed(bug::SPINS)]),
            broken("check 3 `third` says spins; check 2 `second` must say spins")
        );
        assert_eq!(
            prove(&[passed.clone(), passed.clone(), passed.clone()]),
            broken("no check failed; check 2 `second` must")
        );
        let unproven = |check: &str| Outcome::Unproven(format!("{check} was skipped: no /proc"));
        assert_eq!(
            prove(&[skipped(), failed(bug::SPINS)]),
            unproven("check 1 `first`")
        );
        assert_eq!(
            prove(&[passed.clone(), skipped(), passed.clone()]),
            unproven("check 2 `second`")
        );
        assert_eq!(
            prove(&[skipped(), passed.clone(), passed.clone()]),
            broken("no check failed; check 2 `second` must")
        );
    }

    #[test]
    fn a_right_server_passes_every_check() {
        for claim in [Claim::Solution, Claim::Variant("another".to_owned())] {
            let right = exhibit(claim);
            let prove = |verdicts: &[Verdict]| prove(&right, &judged(verdicts));
            assert_eq!(prove(&[Verdict::Passed, Verdict::Passed]), Outcome::Holds);
            assert_eq!(
                prove(&[Verdict::Passed, failed(bug::HUNG)]),
                broken("a right server failed: check 2 `second` says hung")
            );
            assert!(matches!(
                prove(&[skipped(), Verdict::Passed]),
                Outcome::Unproven(_)
            ));
        }
    }

    #[test]
    fn an_exercise_as_shipped_is_not_written_yet() {
        let shipped = exhibit(Claim::NotWritten);
        let prove = |verdict: Verdict| prove(&shipped, &judged(&[verdict]));
        assert_eq!(prove(failed(bug::NOT_WRITTEN)), Outcome::Holds);
        assert!(matches!(prove(failed(bug::CRASHED)), Outcome::Broken(_)));
        assert!(matches!(prove(Verdict::Passed), Outcome::Broken(_)));
    }
}
