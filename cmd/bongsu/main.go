// Command bongsu is the command line for users and administrators. Installed as
// kubectl-bongsu, it is a plugin of kubectl.
package main

import (
	"os"

	"github.com/bongsu-io/bongsu/internal/cli"
	"github.com/bongsu-io/bongsu/internal/command"
)

func main() { os.Exit(command.Main(cli.New())) }
