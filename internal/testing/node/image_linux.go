package node

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

// ActorImage is on every node: see the command in actor/. It also is what the first
// container of every pod runs.
const ActorImage = "localhost/actor:e2e"

// actor builds the image and returns its archive.
func actor(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	binary := filepath.Join(dir, "actor")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", binary, "github.com/bongsu-io/bongsu/internal/testing/node/testimage")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the actor: %v\n%s", err, out)
	}
	archive := filepath.Join(dir, "actor.tar")
	if err := packActor(binary, archive); err != nil {
		t.Fatal(err)
	}
	return archive
}

// packActor makes an image of nothing but a binary, as `docker save` would.
func packActor(binary, archive string) error {
	program, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	layer, err := tarOf(map[string][]byte{"actor": program})
	if err != nil {
		return err
	}
	digest := sha256.Sum256(layer)
	config, err := json.Marshal(map[string]any{
		"os": "linux", "architecture": runtime.GOARCH,
		"config": map[string]any{"Entrypoint": []string{"/actor"}, "User": "65532:65532"},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + hex.EncodeToString(digest[:])}},
	})
	if err != nil {
		return err
	}
	manifest, err := json.Marshal([]any{map[string]any{
		"Config": "config.json", "RepoTags": []string{ActorImage}, "Layers": []string{"layer.tar"},
	}})
	if err != nil {
		return err
	}
	image, err := tarOf(map[string][]byte{"layer.tar": layer, "config.json": config, "manifest.json": manifest})
	if err != nil {
		return err
	}
	return os.WriteFile(archive, image, 0o600)
}

func tarOf(files map[string][]byte) ([]byte, error) {
	var text bytes.Buffer
	w := tar.NewWriter(&text)
	for name, content := range files {
		header := &tar.Header{Name: name, Mode: 0o755, Size: int64(len(content))}
		if err := w.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("pack %s: %w", name, err)
		}
		if _, err := w.Write(content); err != nil {
			return nil, fmt.Errorf("pack %s: %w", name, err)
		}
	}
	return text.Bytes(), w.Close()
}
