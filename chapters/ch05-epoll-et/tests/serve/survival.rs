//! What every server of the workshop must survive, whatever it is built on.

use grader::survival::{Protocol, assert_survives};

#[test]
fn survives_the_battery() {
    assert_survives(&crate::common::program(), Protocol::Http);
}
