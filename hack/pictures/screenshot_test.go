package main

import (
	"image"
	"image/color"
	"testing"
)

func TestACompactPictureHasNoTransparentEdges(t *testing.T) {
	blue := color.NRGBA{B: 255, A: 255}
	picture := image.NewNRGBA(image.Rect(0, 0, 20, 20))
	picture.Set(3, 5, blue)
	picture.Set(10, 6, blue)
	got := compact(picture)
	if want := image.Rect(0, 0, 8, 2); got.Bounds() != want {
		t.Errorf("bounds = %v, want %v", got.Bounds(), want)
	}
	for _, p := range []image.Point{{0, 0}, {7, 1}} {
		if c := color.NRGBAModel.Convert(got.At(p.X, p.Y)); c != blue {
			t.Errorf("color at %v = %v, want %v", p, c, blue)
		}
	}
	if _, _, _, alpha := got.At(1, 1).RGBA(); alpha != 0 {
		t.Error("a pixel within the picture is no longer transparent")
	}
}
