package main

import (
	"os"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/etcdctl/v3/ctlv3"
	utl "go.etcd.io/etcd/etcdutl/v3/etcdutl"
	"go.etcd.io/etcd/pkg/v3/cobrautl"
	"go.etcd.io/etcd/server/v3/etcdmain"
)

// etcd runs the server with its full set of flags and environment variables. The
// embed package has only a few of them, and harnesses such as envtest read from the
// binary's help text which flags it knows.
func etcd() {
	etcdmain.Main(os.Args)
}

// etcdctl talks to a running etcd. Tests compact with it, and save snapshots.
func etcdctl() {
	dropSharedFlags()
	cobra.EnablePrefixMatching = true
	ctlv3.MustStart()
}

// etcdutl works on the data directory of an etcd that is stopped. Tests restore
// an older snapshot with it, to see what clients do when time runs backwards.
func etcdutl() {
	dropSharedFlags()
	cobra.EnablePrefixMatching = true
	if err := newEtcdutlCommand().Execute(); err != nil {
		cobrautl.ExitWithError(cobrautl.ExitError, err)
	}
}

// newEtcdutlCommand puts the tool together: upstream, its commands are a library
// but their root is not.
func newEtcdutlCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "etcdutl",
		Short:         "An administrative command line tool for the files of etcd",
		SilenceErrors: true, // printed by ExitWithError
	}
	root.PersistentFlags().StringVarP(&utl.OutputFormat, "write-out", "w", "simple",
		"set the output format (fields, json, protobuf, simple, table)")
	root.AddCommand(
		utl.NewDefragCommand(),
		utl.NewHashKVCommand(),
		utl.NewMigrateCommand(),
		utl.NewSnapshotCommand(),
		utl.NewVersionCommand(),
	)
	return root
}
