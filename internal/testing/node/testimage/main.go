// Command actor is the only file of an image for tests: it waits until it is told to
// end, or fails as its argument says. Without an argument it also serves as the
// container that holds a pod's namespaces.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	switch act(os.Args[1:]) {
	case "crash":
		fmt.Println("the disk is full of cats")
		os.Exit(3)
	case "oom":
		eat()
	default:
		ended := make(chan os.Signal, 1)
		signal.Notify(ended, syscall.SIGINT, syscall.SIGTERM)
		<-ended
	}
}

func act(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

// eat takes memory until the kernel has had enough.
func eat() {
	for eaten := [][]byte{}; ; time.Sleep(time.Millisecond) {
		chunk := make([]byte, 1<<20)
		for i := range chunk {
			chunk[i] = 1 // or no memory is behind it
		}
		eaten = append(eaten, chunk)
		if len(eaten)%1024 == 0 {
			fmt.Println(len(eaten), "MiB eaten") // the compiler must not think it unused
		}
	}
}
