//! Why a system call failed.

use std::fmt;
use std::io;

/// What a system call gives back: a value, or the reason why not.
pub type Result<T> = std::result::Result<T, Errno>;

/// The number of an error, as `errno(3)` defines it.
///
/// Shown as `Permission denied (EACCES)`: the C library's words, and the name to look up.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Errno(i32);

impl Errno {
    /// The error of the system call that just failed on this thread.
    pub(crate) fn last() -> Errno {
        Errno(io::Error::last_os_error().raw_os_error().unwrap_or(0))
    }

    /// The error with this number.
    pub fn from_raw(number: i32) -> Errno {
        Errno(number)
    }

    /// The number: 11 for `EAGAIN` on Linux.
    pub fn raw(self) -> i32 {
        self.0
    }

    /// The error with this name, `EMFILE`. `EWOULDBLOCK` is another name of `EAGAIN`: POSIX allows
    /// two values, Linux has one.
    pub fn from_name(name: &str) -> Option<Errno> {
        if name == "EWOULDBLOCK" {
            return Some(Errno::EAGAIN);
        }
        TABLE
            .iter()
            .find(|(_, known)| *known == name)
            .map(|(errno, _)| *errno)
    }

    /// The name: `EMFILE`. A number that Linux does not use has the name `E???`.
    pub fn name(self) -> &'static str {
        TABLE
            .iter()
            .find(|(errno, _)| *errno == self)
            .map_or("E???", |(_, name)| name)
    }

    /// The C library's description: `Too many open files`.
    pub fn message(self) -> String {
        let text = io::Error::from_raw_os_error(self.0).to_string();
        // std adds the number: "Too many open files (os error 24)".
        match text.rfind(" (os error") {
            Some(end) => text[..end].to_owned(),
            None => text,
        }
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message(), self.name())
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl std::error::Error for Errno {}

impl From<Errno> for io::Error {
    fn from(errno: Errno) -> io::Error {
        io::Error::from_raw_os_error(errno.0)
    }
}

macro_rules! errnos {
    ($($name:ident)*) => {
        #[allow(missing_docs)] // errno(3) documents them, one sentence each
        impl Errno {
            $(pub const $name: Errno = Errno(libc::$name);)*
        }

        /// Every error of Linux with its name.
        static TABLE: &[(Errno, &str)] = &[$((Errno::$name, stringify!($name))),*];
    };
}

errnos! {
    EPERM ENOENT ESRCH EINTR EIO ENXIO E2BIG ENOEXEC EBADF ECHILD EAGAIN ENOMEM EACCES EFAULT ENOTBLK
    EBUSY EEXIST EXDEV ENODEV ENOTDIR EISDIR EINVAL ENFILE EMFILE ENOTTY ETXTBSY EFBIG ENOSPC ESPIPE
    EROFS EMLINK EPIPE EDOM ERANGE EDEADLK ENAMETOOLONG ENOLCK ENOSYS ENOTEMPTY ELOOP ENOMSG EIDRM
    ECHRNG EL2NSYNC EL3HLT EL3RST ELNRNG EUNATCH ENOCSI EL2HLT EBADE EBADR EXFULL ENOANO EBADRQC
    EBADSLT EBFONT ENOSTR ENODATA ETIME ENOSR ENONET ENOPKG EREMOTE ENOLINK EADV ESRMNT ECOMM EPROTO
    EMULTIHOP EDOTDOT EBADMSG EOVERFLOW ENOTUNIQ EBADFD EREMCHG ELIBACC ELIBBAD ELIBSCN ELIBMAX
    ELIBEXEC EILSEQ ERESTART ESTRPIPE EUSERS ENOTSOCK EDESTADDRREQ EMSGSIZE EPROTOTYPE ENOPROTOOPT
    EPROTONOSUPPORT ESOCKTNOSUPPORT EOPNOTSUPP EPFNOSUPPORT EAFNOSUPPORT EADDRINUSE EADDRNOTAVAIL
    ENETDOWN ENETUNREACH ENETRESET ECONNABORTED ECONNRESET ENOBUFS EISCONN ENOTCONN ESHUTDOWN
    ETOOMANYREFS ETIMEDOUT ECONNREFUSED EHOSTDOWN EHOSTUNREACH EALREADY EINPROGRESS ESTALE EUCLEAN
    ENOTNAM ENAVAIL EISNAM EREMOTEIO EDQUOT ENOMEDIUM EMEDIUMTYPE ECANCELED ENOKEY EKEYEXPIRED
    EKEYREVOKED EKEYREJECTED EOWNERDEAD ENOTRECOVERABLE ERFKILL EHWPOISON
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_the_words_and_the_name() {
        assert_eq!(Errno::EACCES.to_string(), "Permission denied (EACCES)");
        assert_eq!(format!("{:?}", Errno::EMFILE), "EMFILE");
        assert_eq!(Errno::from_raw(9999).name(), "E???");
    }

    #[test]
    fn every_name_leads_back_to_its_number() {
        for (errno, name) in TABLE {
            assert_eq!(Errno::from_name(name), Some(*errno), "{name}");
            assert_eq!(errno.name(), *name);
        }
        assert_eq!(Errno::from_name("EWOULDBLOCK"), Some(Errno::EAGAIN));
        assert_eq!(Errno::from_name("EMFILEX"), None);
    }
}
