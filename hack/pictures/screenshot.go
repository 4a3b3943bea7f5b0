package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// browsers are the names of Chromium.
var browsers = []string{"chromium", "chromium-browser", "google-chrome", "chrome"}

func findBrowser() (string, error) {
	for _, name := range browsers {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("no Chromium in $PATH: install it, for example Debian's package chromium")
}

// maxHeight is the height of the window in pixels. The page must be shorter.
const maxHeight = 2000

// screenshot returns a picture of a page. It has two pixels for each pixel of the page, and
// is transparent where the page has no background.
func screenshot(ctx context.Context, browser, page string, width int) (image.Image, error) {
	dir, err := os.MkdirTemp("", "pictures")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary directory
	source, target := filepath.Join(dir, "page.html"), filepath.Join(dir, "page.png")
	if err := os.WriteFile(source, []byte(page), 0o644); err != nil {
		return nil, err
	}
	args := []string{
		"--headless", "--hide-scrollbars", "--force-device-scale-factor=2", "--default-background-color=00000000",
		fmt.Sprintf("--window-size=%d,%d", width, maxHeight), "--user-data-dir=" + filepath.Join(dir, "profile"),
		"--screenshot=" + target, "file://" + source,
	}
	if os.Geteuid() == 0 {
		args = append([]string{"--no-sandbox"}, args...) // root cannot have a sandbox
	}
	if output, err := exec.CommandContext(ctx, browser, args...).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s: %w:\n%s", browser, err, output)
	}
	data, err := os.ReadFile(target)
	if err != nil {
		return nil, err
	}
	return png.Decode(bytes.NewReader(data))
}

// compact returns the picture without transparent rows and columns at its edges, and with at
// most 256 colors: this halves the size of the file.
func compact(picture image.Image) image.Image {
	var visible image.Rectangle
	counts := map[color.Color]int{}
	all := picture.Bounds()
	for y := all.Min.Y; y < all.Max.Y; y++ {
		for x := all.Min.X; x < all.Max.X; x++ {
			c := picture.At(x, y)
			counts[c]++
			if _, _, _, alpha := c.RGBA(); alpha > 0 {
				visible = visible.Union(image.Rect(x, y, x+1, y+1))
			}
		}
	}
	compacted := image.NewPaletted(image.Rectangle{Max: visible.Size()}, mostFrequent(counts))
	draw.Draw(compacted, compacted.Bounds(), picture, visible.Min, draw.Src)
	return compacted
}

// mostFrequent returns the 256 most frequent colors.
func mostFrequent(counts map[color.Color]int) color.Palette {
	colors := slices.Collect(maps.Keys(counts))
	slices.SortFunc(colors, func(a, b color.Color) int {
		return cmp.Or(counts[b]-counts[a], strings.Compare(fmt.Sprint(a), fmt.Sprint(b)))
	})
	return colors[:min(len(colors), 256)]
}
