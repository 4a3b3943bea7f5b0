//go:build !linux

package main

import "github.com/bongsu-io/bongsu/controlplane/internal/multicall"

// nodePrograms are none: a kubelet and its proxy need Linux.
var nodePrograms []multicall.Program
