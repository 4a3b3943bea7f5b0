// Command bongsu-operator is the operator. It is the only binary in the image.
package main

import (
	"os"

	"github.com/bongsu-io/bongsu/internal/command"
	"github.com/bongsu-io/bongsu/internal/operator/cmd"
)

func main() { os.Exit(command.Main(cmd.New())) }
