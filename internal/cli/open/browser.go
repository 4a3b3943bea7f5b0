package open

import (
	"context"
	"html/template"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// redirect is a page that sends the browser to a URL.
var redirect = template.Must(template.New("redirect").Parse(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={{.}}">
<title>Notebook</title>
</head>
<body><a href="{{.}}">Open the notebook</a></body>
</html>
`))

// pageLifetime is the time in which the browser must read the page.
const pageLifetime = 5 * time.Minute

// handOver opens the browser at a URL that contains the token. Other users of this machine
// can read the command line of the browser. It therefore contains the path of a page that
// only this user can read.
func (s *session) handOver(ctx context.Context, target string) {
	page, err := s.writePage(target)
	if err != nil {
		s.noBrowser(err)
		return
	}
	go func() { // some browsers return only when they end
		if err := s.Browse(page); err != nil {
			s.noBrowser(err)
		}
	}()
	go func() {
		if s.sleep(ctx, pageLifetime) == nil {
			s.removePage()
		}
	}()
}

func (s *session) noBrowser(err error) {
	s.say("cannot open the browser: %v: open the address yourself; --print-url prints it with the token", err)
}

// writePage writes a page that redirects to target, in a directory of this user.
func (s *session) writePage(target string) (path string, err error) {
	if s.pages, err = os.MkdirTemp("", "bongsu-open-"); err != nil {
		return "", err
	}
	var page strings.Builder
	if err := redirect.Execute(&page, target); err != nil {
		return "", err
	}
	path = filepath.Join(s.pages, "notebook.html")
	return path, os.WriteFile(path, []byte(page.String()), 0o600)
}

// removePage removes the page with the token. It may run several times.
func (s *session) removePage() {
	if s.pages == "" {
		return
	}
	if err := os.RemoveAll(s.pages); err != nil {
		s.say("cannot delete the page with the token: %v: delete it yourself", err)
	}
}
