package main

import (
	"os"

	// Credential plugins that a user's kubeconfig may name.
	_ "k8s.io/client-go/plugin/pkg/client/auth"
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
)

// kubectl prints its errors itself (util.CheckErr, which also knows the exit
// codes), so it does not go through run. Its verbosity is set by hand first
// because it looks for plugins, and logs, while the command is being built.
func kubectl() {
	_, _ = logs.GlogSetter(cmd.GetLogVerbosity(os.Args)) // a bad level is refused again by the flag itself
	if err := cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()); err != nil {
		util.CheckErr(err)
	}
}
