//! The checks, exercise by exercise, from easy to hard.
//!
//! `echo` and `http` hold the situations that several exercises share. What a symptom *means* may differ from
//! exercise to exercise, so each lists its own suspects beside the situation.

mod echo;
mod ex01;
mod ex02;
mod ex03;
mod ex04;
mod ex05;
mod ex06;
mod ex07;
mod ex08;
mod http;

use crate::grading::Exercise;

/// Every exercise that can be graded, in order.
pub const EXERCISES: &[Exercise] = &[
    ex01::EXERCISE,
    ex02::EXERCISE,
    ex03::EXERCISE,
    ex04::EXERCISE,
    ex05::EXERCISE,
    ex06::EXERCISE,
    ex07::EXERCISE,
    ex08::EXERCISE,
];

/// The exercise with this name.
pub fn exercise(name: &str) -> Option<&'static Exercise> {
    EXERCISES.iter().find(|exercise| exercise.name == name)
}
