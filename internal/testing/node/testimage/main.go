// Command testimage is the only file of an image for tests. It waits for a signal, or fails
// as its argument says: "crash" or "oom". Without an argument it also serves as the
// sandbox container of pods.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	switch modeOf(os.Args[1:]) {
	case "crash":
		fmt.Println("the disk is full of cats")
		os.Exit(3)
	case "oom":
		exhaustMemory()
	default:
		ended := make(chan os.Signal, 1)
		signal.Notify(ended, syscall.SIGINT, syscall.SIGTERM)
		<-ended
	}
}

func modeOf(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

// exhaustMemory allocates memory until the kernel kills the process.
func exhaustMemory() {
	for chunks := [][]byte{}; ; time.Sleep(time.Millisecond) {
		chunk := make([]byte, 1<<20)
		for i := range chunk {
			chunk[i] = 1 // otherwise the kernel assigns no memory
		}
		chunks = append(chunks, chunk)
		if len(chunks)%1024 == 0 {
			fmt.Println(len(chunks), "MiB used") // the compiler must not remove the loop
		}
	}
}
