package main

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"strings"
)

// figure is one that is counted.
type figure string

const (
	codeLines     figure = "lines of code"
	longFunctions figure = "functions of more than 45 lines"
	statusParams  figure = "parameters that are a status"
	ofTriggers    figure = "comparisons with a trigger"
	ofDryRun      figure = "mentions of DryRun"
	ofPodPending  figure = "mentions of PodPending"
	ofTheBreaker  figure = "mentions of the breaker"
	worldsKept    figure = "worlds that plans are carried out in"
)

const (
	longLines      = 45
	statusTypeName = "TrainingJobStatus"
)

// figures are all, in the order of the table.
var figures = []figure{codeLines, longFunctions, statusParams, ofTriggers, ofDryRun, ofPodPending, ofTheBreaker, worldsKept}

// counts has each figure.
type counts map[figure]int

// countFile counts a file of Go, unless it is generated.
func (c counts) countFile(name string, content []byte) error {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, content, parser.ParseComments)
	if err != nil {
		return err
	}
	if ast.IsGenerated(file) {
		return nil
	}
	c[codeLines] += linesOf(content)
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if files.Position(n.End()).Line-files.Position(n.Pos()).Line+1 > longLines {
				c[longFunctions]++
			}
		case *ast.FuncType:
			c[statusParams] += statuses(n)
		case *ast.BinaryExpr:
			if (n.Op == token.EQL || n.Op == token.NEQ) && (isTrigger(n.X) || isTrigger(n.Y)) {
				c[ofTriggers]++
			}
		case *ast.SwitchStmt:
			if isTrigger(n.Tag) {
				c[ofTriggers]++
			}
		case *ast.Ident:
			c.mention(n.Name)
		}
		return true
	})
	return nil
}

func (c counts) mention(name string) {
	switch {
	case strings.Contains(name, "DryRun"):
		c[ofDryRun]++
	case strings.Contains(name, "PodPending"):
		c[ofPodPending]++
	case strings.Contains(strings.ToLower(name), "breaker"):
		c[ofTheBreaker]++
	}
}

// isTrigger reports whether an expression is the trigger of an incident.
func isTrigger(e ast.Expr) bool {
	field, is := e.(*ast.SelectorExpr)
	return is && field.Sel.Name == "Trigger"
}

// statuses are how many parameters of a function are the status of a job.
func statuses(f *ast.FuncType) (n int) {
	for _, field := range f.Params.List {
		of := field.Type
		if pointer, is := of.(*ast.StarExpr); is {
			of = pointer.X
		}
		if selector, is := of.(*ast.SelectorExpr); is && selector.Sel.Name == statusTypeName {
			n += max(1, len(field.Names))
		}
	}
	return n
}

// linesOf counts the lines that have something else than a comment.
func linesOf(content []byte) int {
	files := token.NewFileSet()
	file := files.AddFile("", files.Base(), len(content))
	var s scanner.Scanner
	s.Init(file, content, nil, 0)
	lines := map[int]bool{}
	for {
		at, kind, text := s.Scan()
		if kind == token.EOF {
			return len(lines)
		}
		if kind == token.SEMICOLON && text == "\n" {
			continue
		}
		first := file.Line(at)
		for i := range 1 + bytes.Count([]byte(text), []byte("\n")) {
			lines[first+i] = true
		}
	}
}
