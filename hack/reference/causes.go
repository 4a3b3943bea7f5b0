package main

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// corpus is the directory with the states that the tests of pkg/diagnosis check.
const corpus = "pkg/diagnosis/testdata/corpus"

// corpusTitles are the files of the corpus in the order in which a pod starts.
var corpusTitles = []struct{ file, title string }{
	{"creation", "The pod or claim cannot be created"},
	{"storage", "A volume is missing, or cannot be resized"},
	{"scheduler", "No node takes the pod"},
	{"nodes", "The node ended or rejected the pod"},
	{"network", "The node cannot set up the pod"},
	{"images", "The image cannot be pulled"},
	{"containers", "A container does not start, ends, or is not ready"},
	{"controllers", "A controller cannot do its work"},
}

// knownState is the part of a state of the corpus that the page shows.
type knownState struct {
	State, Component, Source    string
	Create, Unscheduled         string
	Waiting, Ended, Failed, Pod *componentText
	Container, Deleted, Claim   *componentText
	Resize, ResizeError, Event  *componentText
	Object                      *knownObject
	Want                        struct {
		Reason, Says string
		MayPass      bool
	}
}

type componentText struct {
	Reason, Message, Note string
	ExitCode              int
}

// knownObject is an object whose controller writes the state into its status.
type knownObject struct {
	Status struct {
		Conditions                                       []struct{ Type, Status, Reason, Message string }
		DisruptionsAllowed, DesiredHealthy, ExpectedPods int
	}
}

// writeCauses writes a page for each file of the corpus, and a page that lists them.
func writeCauses() error {
	const dir = "docs/reference/causes"
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	var list bytes.Buffer
	for _, t := range corpusTitles {
		states, err := readStates(filepath.Join(corpus, t.file+".yaml"))
		if err != nil {
			return err
		}
		if err := writePage(filepath.Join(dir, t.file+".md"), causesPage(t.title, states)); err != nil {
			return err
		}
		fmt.Fprintf(&list, "| [%s](causes/%s.md) | %d |\n", t.title, t.file, len(states))
	}
	return writePage(dir+".md", func(w *bytes.Buffer) error {
		fmt.Fprint(w, "# Causes\n\nThese pages show what the components of a cluster write when something does not run, and what Bongsu says. ",
			"Bongsu quotes a text that it does not know.\n\n| what goes wrong | states |\n|---|---|\n", list.String())
		return nil
	})
}

func readStates(path string) (states []knownState, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return states, yaml.Unmarshal(data, &states)
}

// causesPage returns a page with what components write in states of the corpus, and what Bongsu says.
func causesPage(title string, states []knownState) func(*bytes.Buffer) error {
	return func(w *bytes.Buffer) error {
		fmt.Fprintf(w, "# %s\n\nThe table shows what components write, and what Bongsu says. Each row is a test of `pkg/diagnosis`. ", title)
		fmt.Fprint(w, "[All causes](../causes.md) lists the other pages.\n\n",
			"Names in the texts are examples: pod `nb-0`, container `notebook`, image `jupyter:1`, claim `home`, Deployment `web`.\n\n",
			"| state | component | what it writes | reason | what Bongsu says | can waiting help? |\n|---|---|---|---|---|---|\n")
		for i := range states {
			writeState(w, &states[i])
		}
		return nil
	}
}

func writeState(w *bytes.Buffer, s *knownState) {
	reason, says, canPass := "`"+s.Want.Reason+"`", s.Want.Says, "no"
	switch {
	case s.Want.Reason == "":
		reason, says, canPass = "none", "nothing: it is no failure, or the pods show the cause", ""
	case s.Want.MayPass:
		canPass = "yes"
	}
	fmt.Fprintf(w, "| %s | %s (`%s`) | %s | %s | %s | %s |\n",
		escape(s.State), escape(s.Component), escape(s.Source), escape(s.written()), reason, escape(says), canPass)
}

// written returns the texts of the component.
func (s *knownState) written() string {
	parts := slices.DeleteFunc([]string{s.Create, s.Unscheduled}, func(text string) bool { return text == "" })
	for _, t := range []*componentText{s.Waiting, s.Ended, s.Failed, s.Pod, s.Container, s.Deleted, s.Claim, s.Resize, s.ResizeError, s.Event} {
		if t == nil {
			continue
		}
		text := cmp.Or(t.Message, t.Note)
		if t.ExitCode != 0 {
			text = fmt.Sprintf("exit code %d %s", t.ExitCode, text)
		}
		parts = append(parts, strings.Trim(t.Reason+": "+text, ": "))
	}
	if s.Object != nil {
		parts = append(parts, s.Object.written()...)
	}
	return strings.TrimSpace(strings.Join(parts, "; "))
}

// written returns the conditions of the status, or its numbers if it has none.
func (o *knownObject) written() []string {
	var parts []string
	for _, c := range o.Status.Conditions {
		parts = append(parts, strings.Trim(fmt.Sprintf("%s %s: %s: %s", c.Type, c.Status, c.Reason, c.Message), ": "))
	}
	if b := o.Status; len(parts) == 0 && b.ExpectedPods > 0 {
		parts = append(parts, fmt.Sprintf("disruptionsAllowed %d, desiredHealthy %d, expectedPods %d", b.DisruptionsAllowed, b.DesiredHealthy, b.ExpectedPods))
	}
	return parts
}
