package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// declaration is the source of one function, method, type, constant or variable.
type declaration struct {
	file   string
	begin  int // in bytes
	source string
}

// declarations are those of the engine, by name: a method has that of its type before its own, as in job.describe, and what is
// in another package than policies has that of the package before it, as in nodes.triage.admit.
func declarations(root string) (map[string][]declaration, error) {
	found := map[string][]declaration{}
	err := filepath.WalkDir(filepath.Join(root, "policies"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, content, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		note := func(name string, node ast.Node) {
			if file.Name.Name != "policies" {
				name = file.Name.Name + "." + name
			}
			begin, end := files.Position(node.Pos()).Offset, files.Position(node.End()).Offset
			found[name] = append(found[name], declaration{path, begin, string(content[begin:end])})
		}
		for _, decl := range file.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				note(functionName(d), d)
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					noteSpec(spec, note)
				}
			}
		}
		return nil
	})
	return found, err
}

func noteSpec(spec ast.Spec, note func(string, ast.Node)) {
	switch s := spec.(type) {
	case *ast.TypeSpec:
		note(s.Name.Name, s)
	case *ast.ValueSpec:
		note(s.Names[0].Name, s)
	}
}

func functionName(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	of := f.Recv.List[0].Type
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	if name, ok := of.(*ast.Ident); ok {
		return name.Name + "." + f.Name.Name
	}
	return f.Name.Name
}
