#!/bin/sh
# Records the traces beside this script again. Needs strace and a C compiler. Numbers, addresses and
# the order of threads differ each time; the tests hold for any recording.
set -eu
cd "$(dirname "$0")"
bin=$(mktemp -d)
trap 'rm -r "$bin"' EXIT
cc -w -O -o "$bin/calls" calls.c
cc -w -O -pthread -o "$bin/threads" threads.c
mine='!brk,mmap,munmap,mprotect,pread64,newfstatat,arch_prctl,rseq,set_robust_list,set_tid_address,prlimit64,access'

strace -o ls.strace ls / >/dev/null
cd "$bin"
out=$OLDPWD
# `calls` ends itself with a signal, which is no failure here.
strace -e "trace=$mine" -o "$out/calls.strace" ./calls || true
strace -e "trace=$mine" -yy -ttt -T -o "$out/calls-yy-ttt-T.strace" ./calls || true
strace -e "trace=$mine" -xx -r -o "$out/calls-xx-r.strace" ./calls || true
strace -e "trace=$mine" -e inject=read:error=EIO:when=2+ -e inject=writev:retval=1 \
    -e inject=umask:delay_exit=1 -o "$out/calls-inject.strace" ./calls || true
strace -f -o "$out/threads-f.strace" ./threads
strace -f -ttt -T -o "$out/threads-f-ttt-T.strace" ./threads
strace -f -tt ./threads 2>"$out/threads-terminal.strace"
