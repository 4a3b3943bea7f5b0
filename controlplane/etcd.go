package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

// etcd is the server with its full set of flags and environment variables, not
// the embed package with a few of them: harnesses such as envtest ask the
// binary's help text which flags it knows.
func etcd() {
	etcdmain.Main(os.Args)
}
