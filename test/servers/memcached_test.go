package servers

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// flags are those of each item.
const flags = 4_000_000_007

// memcached is a running memcached server.
type memcached struct {
	t       *testing.T
	address string
	process *os.Process
}

// startMemcached skips the test if memcached is missing.
func startMemcached(t *testing.T) *memcached {
	t.Helper()
	binary, err := exec.LookPath("memcached")
	if err != nil {
		t.Skip("no memcached: run `make e2e-servers`, which installs it on Debian")
	}
	m := &memcached{t: t}
	m.address, m.process, _ = startProcess(t, nil, func(host, port string) []string {
		return []string{binary, "-l", host, "-p", port, "-u", "root"}
	})
	for begun := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		connection, err := net.Dial("tcp", m.address)
		if err == nil {
			_ = connection.Close()
			return m
		}
		if time.Since(begun) > patience {
			t.Fatal(err)
		}
	}
}

// send sends commands, and returns the answers.
func (m *memcached) send(commands string) string {
	m.t.Helper()
	connection, err := net.Dial("tcp", m.address)
	if err != nil {
		m.t.Fatal(err)
	}
	defer func() { _ = connection.Close() }()
	go func() { _, _ = io.WriteString(connection, commands+"quit\r\n") }()
	answers, err := io.ReadAll(connection)
	if err != nil {
		m.t.Fatal(err)
	}
	return string(answers)
}

// store stores an item that expires, or not if seconds is 0.
func (m *memcached) store(key, value string, seconds int) {
	m.t.Helper()
	if answer := m.send(fmt.Sprintf("set %s %d %d %d\r\n%s\r\n", key, flags, seconds, len(value), value)); answer != "STORED\r\n" {
		m.t.Fatalf("%q: %s", key, answer)
	}
}

// lifetime returns the seconds until an item expires, or -1.
func (m *memcached) lifetime(key string) int {
	m.t.Helper()
	answer := m.send("mg " + key + " t\r\n")
	seconds, err := strconv.Atoi(strings.TrimPrefix(strings.TrimSpace(answer), "HD t"))
	if err != nil {
		m.t.Fatalf("%q: %s", key, answer)
	}
	return seconds
}

// script runs a script of the sample as the operator does. A server is HOST/PORT.
func script(t *testing.T, name string, args ...string) error {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "samples", "memcached-operator", "internal", "controller", name))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, "bash", append([]string{"-c", string(text), name}, args...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

func (m *memcached) server() string { return strings.Replace(m.address, ":", "/", 1) }

func TestABackupOfMemcachedRestoresEveryItem(t *testing.T) {
	t.Parallel()
	source, other, restored := startMemcached(t), startMemcached(t), startMemcached(t)
	values := map[string]string{
		"plain":                    "value",
		"empty":                    "",
		"binary":                   "\x00\xff\r\nEND\r\nVALUE binary 0 1\r\n\\x41%41\n",
		"encoded/%25&=\\x41+é\x01": "the name has characters that the list of keys encodes",
		"large":                    strings.Repeat("0123456789abcde\n", 60_000),
	}
	for key, value := range values {
		source.store(key, value, 0)
	}
	source.store("expiring", "later", 1000)
	other.store("other", "of another server", 0)
	values["expiring"], values["other"] = "later", "of another server"
	const many = 1000
	var commands bytes.Buffer
	for i := range many {
		key := fmt.Sprintf("key-%d", i)
		values[key] = strconv.Itoa(i)
		fmt.Fprintf(&commands, "set %s %d 0 %d noreply\r\n%s\r\n", key, flags, len(values[key]), values[key])
	}
	source.send(commands.String())

	file := filepath.Join(t.TempDir(), "backup")
	begun := time.Now()
	if err := script(t, "backup.sh", file, source.server(), other.server()); err != nil {
		t.Fatal(err)
	}
	t.Attr("summary", fmt.Sprintf("memcached: a backup of %d items in %.1f s", len(values), time.Since(begun).Seconds()))
	backup, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if answers := restored.send(string(backup)); answers != "" {
		t.Errorf("the server answers %s", answers)
	}
	for key, value := range values {
		want := fmt.Sprintf("VALUE %s %d %d\r\n%s\r\nEND\r\n", key, flags, len(value), value)
		if got := restored.send("get " + key + "\r\n"); got != want {
			t.Errorf("%q: got %.100q, want %.100q", key, got, want)
		}
	}
	if left := restored.lifetime("expiring"); left < 900 || left > 1000 {
		t.Errorf("the item expires in %d s, want 1000 s or a little less", left)
	}
	if left := restored.lifetime("plain"); left != -1 {
		t.Errorf("the item expires in %d s, want never", left)
	}
}

func TestABackupOfMemcachedIsWholeOrFails(t *testing.T) {
	t.Parallel()
	server := startMemcached(t)
	server.store("key", "value", 0)
	file := filepath.Join(t.TempDir(), "backup")
	if err := script(t, "backup.sh", file, server.server(), strings.Replace(freeAddress(t), ":", "/", 1)); err == nil {
		t.Error("no error, want one about the server that refuses the connection")
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("there is a file, although a server is missing in it")
	}
	if err := script(t, "backup.sh", file); err == nil || !strings.Contains(err.Error(), "no server to back up") {
		t.Errorf("a backup of no servers ended with %v, want an error", err)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("there is a file, although there was no server")
	}
}

func TestTheProbeOfMemcachedFailsWhileTheServerIsStopped(t *testing.T) {
	t.Parallel()
	server := startMemcached(t)
	for _, step := range []struct {
		signal  syscall.Signal
		healthy bool
	}{{0, true}, {syscall.SIGSTOP, false}, {syscall.SIGCONT, true}, {syscall.SIGKILL, false}} {
		if err := server.process.Signal(step.signal); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		if err := script(t, "probe.sh", server.server()); (err == nil) != step.healthy {
			t.Errorf("after the signal %v: %v", step.signal, err)
		}
		if took := time.Since(begun); took > 5*time.Second {
			t.Errorf("after the signal %v, the probe took %v", step.signal, took)
		}
	}
}

// A server that is not memcached must not pass for one.
func TestTheScriptsOfMemcachedRefuseAnotherServer(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = bufio.NewReader(connection).ReadString('\n')
				_, _ = io.WriteString(connection, "ERROR\r\n")
				_ = connection.Close()
			}()
		}
	}()
	server := strings.Replace(listener.Addr().String(), ":", "/", 1)
	if err := script(t, "probe.sh", server); err == nil {
		t.Error("the probe passed")
	}
	if err := script(t, "backup.sh", filepath.Join(t.TempDir(), "backup"), server); err == nil || !strings.Contains(err.Error(), "ERROR") {
		t.Errorf("the backup ended with %v, want the answer of the server", err)
	}
}
