package main

import (
	"cmp"
	"errors"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path"
	"path/filepath"
	"slices"
)

// arrow leads from a file to a file that it uses.
type arrow struct{ from, to string }

// graph contains the arrows between the files of a package.
type graph struct {
	dir   string
	files []string // sorted
	// arrows contains the names behind each arrow.
	arrows map[arrow]map[string]bool
}

// load reads the packages in and below a directory, sorted by their path.
func load(root string) (graphs []graph, err error) {
	err = filepath.WalkDir(root, func(dir string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		if entry.Name() == "testdata" {
			return fs.SkipDir
		}
		found, err := build.ImportDir(dir, 0)
		if _, ok := errors.AsType[*build.NoGoError](err); ok {
			return nil
		}
		if err != nil {
			return err
		}
		g, err := read(dir, found.GoFiles)
		graphs = append(graphs, g)
		return err
	})
	return graphs, err
}

// read reads the files of a package. It needs no other package, and so no build. A name is not
// found where the type of a value that it belongs to comes from another package.
func read(dir string, files []string) (graph, error) {
	g := graph{dir: filepath.ToSlash(dir), files: files, arrows: map[arrow]map[string]bool{}}
	set := token.NewFileSet()
	parsed := make([]*ast.File, len(files))
	for i, name := range files {
		var err error
		if parsed[i], err = parser.ParseFile(set, filepath.Join(dir, name), nil, parser.SkipObjectResolution); err != nil {
			return g, err
		}
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: emptyPackages{}, Error: func(error) {}} // an error for each name of another package
	_, _ = config.Check(dir, set, parsed, info)
	for use, object := range info.Uses {
		if object.Pkg() == nil || object.Pkg().Path() != dir {
			continue // it belongs to the language
		}
		g.add(filepath.Base(set.Position(use.Pos()).Filename), filepath.Base(set.Position(object.Pos()).Filename), object.Name())
	}
	return g, nil
}

// emptyPackages imports each package as an empty one.
type emptyPackages struct{}

func (emptyPackages) Import(name string) (*types.Package, error) {
	p := types.NewPackage(name, path.Base(name))
	p.MarkComplete()
	return p, nil
}

// add adds a use of a name.
func (g *graph) add(from, to, name string) {
	if from == to {
		return
	}
	a := arrow{from, to}
	if g.arrows[a] == nil {
		g.arrows[a] = map[string]bool{}
	}
	g.arrows[a][name] = true
}

// names returns the names behind an arrow, sorted.
func (g graph) names(a arrow) []string { return slices.Sorted(maps.Keys(g.arrows[a])) }

func (g graph) has(from, to string) bool { return g.arrows[arrow{from, to}] != nil }

// uphill returns the arrows that lead back in the best order, sorted.
func (g graph) uphill() (found []arrow) {
	for _, cycle := range g.cycles() {
		found = append(found, g.back(g.order(cycle))...)
	}
	slices.SortFunc(found, func(a, b arrow) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to)) })
	return found
}

// cycles returns the sets of files that all use each other, directly or through others of the set.
func (g graph) cycles() (found [][]string) {
	reaches := g.reachable()
	done := map[string]bool{}
	for _, a := range g.files {
		if done[a] {
			continue
		}
		cycle := []string{a}
		for _, b := range g.files {
			if a != b && reaches[arrow{a, b}] && reaches[arrow{b, a}] {
				cycle, done[b] = append(cycle, b), true
			}
		}
		found = append(found, cycle)
	}
	return found
}

// reachable contains the pairs of files with a way of arrows from one to the other.
func (g graph) reachable() map[arrow]bool {
	reaches := map[arrow]bool{}
	for a := range g.arrows {
		reaches[a] = true
	}
	for _, via := range g.files {
		for _, from := range g.files {
			for _, to := range g.files {
				if reaches[arrow{from, via}] && reaches[arrow{via, to}] {
					reaches[arrow{from, to}] = true
				}
			}
		}
	}
	return reaches
}

// starts is the number of random orders from which order begins.
const starts = 100

// order returns the files in an order in which few arrows lead back. It begins with random
// orders, moves single files as long as that leaves fewer, and takes the best result.
func (g graph) order(files []string) (best []string) {
	random := rand.New(rand.NewPCG(0, 0)) // the result is always the same
	for range starts {
		order := slices.Clone(files)
		random.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		for slices.ContainsFunc(files, func(file string) bool { return g.move(order, file) }) {
		}
		if best == nil || len(g.back(order)) < len(g.back(best)) {
			best = order
		}
	}
	return best
}

// back returns the arrows that lead back in an order.
func (g graph) back(order []string) (found []arrow) {
	for i, from := range order {
		for _, to := range order[:i] {
			if g.has(from, to) {
				found = append(found, arrow{from, to})
			}
		}
	}
	return found
}

// move moves a file to its best place in the order. It returns false if that is where it is.
func (g graph) move(order []string, file string) bool {
	from := slices.Index(order, file)
	best, most := from, 0 // the arrows fewer that lead back with the file at best
	for to, fewer := from+1, 0; to < len(order); to++ {
		if fewer += g.weight(order[to], file); fewer > most {
			best, most = to, fewer
		}
	}
	for to, fewer := from-1, 0; to >= 0; to-- {
		if fewer += g.weight(file, order[to]); fewer > most {
			best, most = to, fewer
		}
	}
	if best == from {
		return false
	}
	copy(order[from:], order[from+1:])
	copy(order[best+1:], order[best:])
	order[best] = file
	return true
}

// weight is 1 if only a uses b, -1 if only b uses a, and else 0.
func (g graph) weight(a, b string) (n int) {
	if g.has(a, b) {
		n++
	}
	if g.has(b, a) {
		n--
	}
	return n
}
