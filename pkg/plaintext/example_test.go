package plaintext_test

import (
	"fmt"

	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

func ExampleLine() {
	fmt.Println(plaintext.Line("pull failed:\n\x1b[31m  no such image\x1b[0m"))
	// Output: pull failed: [31m no such image[0m
}

func ExampleCut() {
	fmt.Println(plaintext.Cut("no such image", 10))
	// Output: no such…
}
