// Arrows checks that the files of a package use each other in one direction.
//
//	go run ./hack/arrows [-v] [-max PERCENT] DIRECTORY
//
// An arrow leads from a file to another file of its package whose names it uses: types,
// functions, methods, fields, variables, or constants. The files are put into the order in
// which the fewest arrows lead back. These arrows are uphill. Only files that use each other
// in a cycle have any. Tests are left out.
//
// Arrows prints a table of the packages in and below the directory. With -max, it fails if more
// than PERCENT of the arrows of a package are uphill. Packages with fewer than ten arrows are
// checked together, as one, because a single arrow is a large part of theirs. With -v, it
// prints each uphill arrow too.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
)

func main() {
	if err := run(os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "arrows:", err)
		os.Exit(1)
	}
}

func run(out io.Writer, args []string) error {
	flags := flag.NewFlagSet("arrows", flag.ContinueOnError)
	verbose := flags.Bool("v", false, "print each uphill arrow")
	limit := flags.Float64("max", 100, "fail if more than this percentage of the arrows of a package is uphill")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 1 {
		return errors.New("usage: arrows [-v] [-max PERCENT] DIRECTORY")
	}
	graphs, err := load(flags.Arg(0))
	if err != nil {
		return err
	}
	rows := rowsOf(graphs)
	text := table(rows)
	if *verbose {
		text = list(graphs) + text
	}
	_, err = io.WriteString(out, text)
	return errors.Join(err, check(rows, *limit))
}

// row is a row of the table: a package, or several.
type row struct {
	name                  string
	files, arrows, uphill int
	// checked is true if the limit applies to the row.
	checked bool
}

func (r row) percent() float64 { return 100 * float64(r.uphill) / float64(max(r.arrows, 1)) }

func (r *row) add(other row) {
	r.files, r.arrows, r.uphill = r.files+other.files, r.arrows+other.arrows, r.uphill+other.uphill
}

// fewArrows is the number of arrows from which on a package is checked alone.
const fewArrows = 10

// rowsOf returns a row for each package with arrows, one for those with few arrows, and one for
// all.
func rowsOf(graphs []graph) (rows []row) {
	few, all := row{name: fmt.Sprintf("fewer than %d arrows", fewArrows), checked: true}, row{name: "all"}
	for _, g := range graphs {
		if len(g.arrows) == 0 {
			continue
		}
		r := row{name: g.dir, files: len(g.files), arrows: len(g.arrows), uphill: len(g.uphill()), checked: len(g.arrows) >= fewArrows}
		if !r.checked {
			few.add(r)
		}
		all.add(r)
		rows = append(rows, r)
	}
	return append(rows, few, all)
}

// table returns the table of the rows.
func table(rows []row) string {
	var text strings.Builder
	fmt.Fprintf(&text, "%-34s %5s %6s %6s %7s\n", "package", "files", "arrows", "uphill", "percent")
	for _, r := range rows {
		fmt.Fprintf(&text, "%-34s %5d %6d %6d %7.1f\n", r.name, r.files, r.arrows, r.uphill, r.percent())
	}
	return text.String()
}

// list returns a line for each uphill arrow.
func list(graphs []graph) string {
	var text strings.Builder
	for _, g := range graphs {
		for _, a := range g.uphill() {
			fmt.Fprintf(&text, "%s: %s uses %s: %s\n", g.dir, a.from, a.to, strings.Join(g.names(a), ", "))
		}
	}
	return text.String()
}

// check fails if a package is above the limit.
func check(rows []row, limit float64) (err error) {
	for _, r := range rows {
		if r.checked && r.percent() > limit {
			err = errors.Join(err, fmt.Errorf("%s: %.1f %% of the arrows between its files are uphill, the limit is %g %%: list them with -v, and move what a lower file uses", r.name, r.percent(), limit))
		}
	}
	return err
}
