// Pictures makes the pictures of the docs from real runs on the embedded cluster:
//
//   - explain.svg is a terminal with commands and their output.
//   - slack.png shows messages that the operator posts to Slack during the demo.
//
// It needs the binaries of `make build`, and Chromium. `make pictures` runs it in the root
// of the repository:
//
//	go run ./hack/pictures docs/pictures
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image/png"
	"os"
	"os/signal"
	"path/filepath"
	"time"
)

// timeout is the time limit for both pictures.
const timeout = 10 * time.Minute

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "pictures:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) != 1 {
		return errors.New("usage: pictures DIRECTORY")
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	bin, err := filepath.Abs("bin")
	if err != nil {
		return err
	}
	browser, err := findBrowser()
	if err != nil {
		return err
	}
	if err := explainPicture(ctx, bin, filepath.Join(args[0], "explain.svg")); err != nil {
		return fmt.Errorf("explain.svg: %w", err)
	}
	if err := slackPicture(ctx, bin, browser, filepath.Join(args[0], "slack.png")); err != nil {
		return fmt.Errorf("slack.png: %w", err)
	}
	return nil
}

// explainPicture writes a terminal in which `bongsu explain` finds why workloads do not run.
func explainPicture(ctx context.Context, bin, path string) error {
	s, err := startSession(ctx, bin)
	if err != nil {
		return err
	}
	screen, err := s.enterAll(ctx, explained)
	if err := errors.Join(err, s.close()); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(drawTerminal(screen)), 0o644)
}

// slackPicture writes a channel with messages of the demo.
func slackPicture(ctx context.Context, bin, browser, path string) error {
	posts, err := runDemo(ctx, bin)
	if err != nil {
		return err
	}
	chosen, err := choose(posts, shownAlarms)
	if err != nil {
		return err
	}
	page, err := slackHTML(chosen)
	if err != nil {
		return err
	}
	picture, err := screenshot(ctx, browser, page, slackWidth)
	if err != nil {
		return err
	}
	var data bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	if err := encoder.Encode(&data, compact(picture)); err != nil {
		return err
	}
	return os.WriteFile(path, data.Bytes(), 0o644)
}
