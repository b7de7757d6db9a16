//! Which data was registered with epoll for which descriptor.

use std::collections::{BTreeMap, HashMap};

use super::Owner;
use crate::model::{Call, Field, Outcome, Value};

/// The data of every registration, and whose it is.
#[derive(Clone, Debug, Default)]
pub(super) struct Registry {
    /// By epoll instance and data: the registrations.
    by_data: HashMap<(String, u64), Vec<Registration>>,
    /// By epoll instance and descriptor: the data.
    data: HashMap<(String, i32), u64>,
}

#[derive(Clone, Debug)]
struct Registration {
    fd: i32,
    role: String,
}

impl Registry {
    /// Replaces the data in `named`, whose descriptors have been replaced already.
    pub(super) fn name(&mut self, call: &Call, named: &mut Call, open: &BTreeMap<i32, Owner>) {
        match call.name.as_str() {
            "epoll_ctl" => {
                if let Some(fd) = call.args.get(2).and_then(Value::descriptor) {
                    self.register(fd, named);
                }
            }
            "epoll_wait" | "epoll_pwait" | "epoll_pwait2" => self.report(named, open),
            _ => {}
        }
    }

    /// `epoll_ctl(epoll, EPOLL_CTL_ADD, conn1, {events=EPOLLIN, data={u32=5, u64=5}}) = 0`
    fn register(&mut self, fd: i32, call: &mut Call) {
        let is_done = matches!(
            call.outcome,
            Outcome::Returned {
                injected: false,
                ..
            }
        );
        let [epoll, operation, target, event] = &mut call.args[..] else {
            return;
        };
        let (epoll, role) = (epoll.to_string(), target.to_string());
        if is_done && let Some(old) = self.data.remove(&(epoll.clone(), fd)) {
            let registrations = self.by_data.entry((epoll.clone(), old)).or_default();
            registrations.retain(|registration| registration.fd != fd);
        }
        if matches!(operation, Value::Flags(names) if names[..] == ["EPOLL_CTL_DEL"]) {
            return;
        }
        if let Some(data) = data_of(event)
            && let Some(bits) = bits(data)
        {
            *data = shown(bits, fd, &role);
            if is_done {
                self.data.insert((epoll.clone(), fd), bits);
                let registrations = self.by_data.entry((epoll, bits)).or_default();
                registrations.push(Registration { fd, role });
            }
        }
    }

    /// `epoll_wait(epoll, [{events=EPOLLIN, data={u32=5, u64=5}}], 16, -1) = 1`
    fn report(&self, call: &mut Call, open: &BTreeMap<i32, Owner>) {
        let [epoll, Value::Array(events), ..] = &mut call.args[..] else {
            return;
        };
        for event in events {
            let Some(data) = data_of(event) else { continue };
            let Some(bits) = bits(data) else { continue };
            let registrations = self.by_data.get(&(epoll.to_string(), bits));
            *data = match registrations.and_then(|all| the_one(all, open)) {
                Some(registration) => shown(bits, registration.fd, &registration.role),
                None => bits.into(),
            };
        }
    }
}

/// The registration that is meant, if only one can be: the only one whose descriptor is still open,
/// or the only one at all. (A closed descriptor is still reported while a duplicate of it is open:
/// epoll(7), "Questions and answers".)
fn the_one<'r>(all: &'r [Registration], open: &BTreeMap<i32, Owner>) -> Option<&'r Registration> {
    let mut live = all
        .iter()
        .filter(|registration| match open.get(&registration.fd) {
            Some(owner) => owner.role == registration.role,
            None => is_unnamed(registration),
        });
    match (live.next(), live.next(), all) {
        (Some(one), None, _) | (None, None, [one]) => Some(one),
        _ => None,
    }
}

/// True for a descriptor that the parent process left open: its role is its number.
fn is_unnamed(registration: &Registration) -> bool {
    registration.role == registration.fd.to_string()
}

fn shown(bits: u64, fd: i32, role: &str) -> Value {
    match u64::try_from(fd) {
        Ok(fd) if fd == bits => Value::name(role),
        _ => Value::function("token", Value::name(role)),
    }
}

/// The member `data` of an `epoll_event`.
fn data_of(event: &mut Value) -> Option<&mut Value> {
    let Value::Struct(fields) = event else {
        return None;
    };
    fields
        .iter_mut()
        .find(|field| field.name == "data")
        .map(|field| &mut field.value)
}

/// The 64 bits of `{u32=5, u64=5}`, `5` or `0x5`.
fn bits(data: &Value) -> Option<u64> {
    match data {
        Value::Int(number) => u64::try_from(*number).ok(),
        Value::Hex(number) => Some(*number),
        Value::Struct(fields) => fields
            .iter()
            .find(|Field { name, .. }| name == "u64")
            .and_then(|field| bits(&field.value)),
        _ => None,
    }
}
