package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Problem is one thing that is wrong, or with Warnings, suspect.
type Problem struct {
	// File as it was given to Load or Parse; empty for a tree built in Go.
	File string `json:"file,omitempty"`
	// Line and Col count from 1, Col in characters; 0 where there is no position.
	Line int `json:"line,omitempty"`
	Col  int `json:"col,omitempty"`
	// Path of the setting, such as `listeners[0].tls`; empty for the whole file.
	Path string `json:"path,omitempty"`
	// Message says what is wrong.
	Message string `json:"message"`
	// Hint says what to do about it; may be empty.
	Hint string `json:"hint,omitempty"`
	// SourceLine is the line of the file, without its end.
	SourceLine string `json:"source_line,omitempty"`
}

// String writes `file:line:col: path: message; hint` in one line.
func (p Problem) String() string {
	var b strings.Builder
	if p.File != "" {
		b.WriteString(p.File + ":")
	}
	if p.Line > 0 {
		fmt.Fprintf(&b, "%d:%d:", p.Line, p.Col)
	}
	if b.Len() > 0 {
		b.WriteByte(' ')
	}
	if p.Path != "" {
		b.WriteString(p.Path + ": ")
	}
	b.WriteString(p.Message)
	if p.Hint != "" {
		b.WriteString("; " + p.Hint)
	}
	return b.String()
}

// Text writes the problem as String does, then the line that it is in with
// the place marked; of a long line, what is around the place.
func (p Problem) Text() string {
	if p.SourceLine == "" {
		return p.String()
	}
	line, col := window(p.SourceLine, p.Col)
	number := fmt.Sprintf("%5d", p.Line)
	return p.String() + "\n" + number + " | " + line + "\n" +
		strings.Repeat(" ", len(number)) + " | " + marker(line, col)
}

// maxShown bounds the line that is shown, in characters: JSON is often one line.
const maxShown = 160

// window cuts what is around the character col out of a long line.
func window(line string, col int) (string, int) {
	runes := []rune(line)
	if len(runes) <= maxShown {
		return line, col
	}
	from := min(max(col-maxShown/2, 0), len(runes)-maxShown)
	cut := string(runes[from : from+maxShown])
	if from > 0 {
		return "…" + cut, col - from + 1
	}
	return cut + "…", col
}

// marker is a caret below the character col of line; tabs stay tabs, so that
// it stands below it on a terminal.
func marker(line string, col int) string {
	var b strings.Builder
	for i, r := range []rune(line) {
		if i+1 >= col {
			break
		}
		if r != '\t' {
			r = ' '
		}
		b.WriteRune(r)
	}
	return b.String() + "^"
}

// Problems is the error of a configuration: all that is wrong with it, in the
// order of the file.
type Problems struct {
	List []Problem
}

// Error writes every problem with its line.
func (p *Problems) Error() string {
	noun := "problems"
	if len(p.List) == 1 {
		noun = "problem"
	}
	return fmt.Sprintf("configuration invalid: %d %s\n%s", len(p.List), noun, joinProblems(p.List))
}

// Warnings are what is allowed and probably not meant, in the order of the file.
type Warnings []Problem

// String writes every warning with its line; empty where there is none.
func (w Warnings) String() string { return joinProblems(w) }

func joinProblems(list []Problem) string {
	texts := make([]string, len(list))
	for i, p := range list {
		texts[i] = p.Text()
	}
	return strings.Join(texts, "\n")
}

// position is a place in the file; the zero value is nowhere.
type position struct{ line, col int }

// report collects problems and warnings and knows where each path stands.
type report struct {
	file     string
	lines    []string
	at       map[string]position
	problems []Problem
	warnings []Problem
	// said are the paths that have a problem, above these and all that hold them.
	said, above map[string]bool
}

func newReport(file string, source []byte) *report {
	r := &report{file: file, at: map[string]position{}, said: map[string]bool{}, above: map[string]bool{}}
	if source != nil {
		r.lines = strings.Split(strings.ReplaceAll(string(source), "\r\n", "\n"), "\n")
	}
	return r
}

// where is the position of path, or of the nearest thing that holds it.
func (r *report) where(path string) position {
	for {
		if at, ok := r.at[path]; ok {
			return at
		}
		if path == "" {
			return position{}
		}
		path = parentPath(path)
	}
}

// parentPath takes the last key or index off a path.
func parentPath(path string) string {
	return path[:max(strings.LastIndexAny(path, ".["), 0)]
}

func (r *report) make(at position, path, message, hint string) Problem {
	p := Problem{File: r.file, Line: at.line, Col: at.col, Path: path, Message: message, Hint: hint}
	if at.line >= 1 && at.line <= len(r.lines) {
		p.SourceLine = r.lines[at.line-1]
	}
	return p
}

// fail records a problem at the position of path. Only the first one of a path
// counts: what follows is a consequence more often than news.
func (r *report) fail(path, message, hint string) {
	if r.said[path] {
		return
	}
	r.failAt(r.where(path), path, message, hint)
}

// failAt records a problem at a position of its own.
func (r *report) failAt(at position, path, message, hint string) {
	r.spoil(path)
	r.problems = append(r.problems, r.make(at, path, message, hint))
}

// spoil lets nothing more be said of path.
func (r *report) spoil(path string) {
	r.said[path] = true
	for up := path; !r.above[up]; up = parentPath(up) {
		r.above[up] = true
	}
}

func (r *report) warn(path, message, hint string) {
	r.warnings = append(r.warnings, r.make(r.where(path), path, message, hint))
}

// failErr records an error with a suggestion where it is about a word.
func (r *report) failErr(path string, err error) {
	message, hint := err.Error(), ""
	var unknown *unknownWord
	if errors.As(err, &unknown) {
		message, hint = fmt.Sprintf("unknown %s %q", unknown.what, unknown.word), suggest(unknown.word, unknown.known)
		if unknown.word == string(MLKEM1024) || unknown.word == string(PQCNSA2) {
			hint = "it needs a build with Go 1.27 or later"
		}
	} else if m, h, ok := strings.Cut(message, "; "); ok {
		message, hint = m, h
	}
	r.fail(path, message, hint)
}

// failed reports whether path, or something that holds it, has a problem.
func (r *report) failed(path string) bool {
	for {
		if r.said[path] {
			return true
		}
		if path == "" {
			return false
		}
		path = parentPath(path)
	}
}

// failedBelow reports whether path or something in it has a problem.
func (r *report) failedBelow(path string) bool { return r.above[path] }

// result is what Load returns beside the tree.
func (r *report) result() (Warnings, error) {
	inOrder := func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col))
	}
	slices.SortStableFunc(r.problems, inOrder)
	slices.SortStableFunc(r.warnings, inOrder)
	if len(r.problems) > 0 {
		return r.warnings, &Problems{List: r.problems}
	}
	return r.warnings, nil
}
