package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// engine is the folder of the recovery engine.
const engine = "policies"

// declaration is the source of one function, method, type, constant or variable, or a whole file of YAML.
type declaration struct {
	file   string // from the root of the module
	begin  int    // in bytes
	source string
}

// declarations returns those of the module by name. The name begins with the folder of the package, as in serving.maxHeader, but not in
// policies itself. A method has its type before its own name, as in serving.crowd.add and job.describe. The name of a YAML file is its
// path.
func declarations(root string) (map[string][]declaration, error) {
	found := map[string][]declaration{}
	err := fs.WalkDir(os.DirFS(root), ".", func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && isForeign(root, file):
			return fs.SkipDir
		case strings.HasSuffix(file, ".yaml"):
			return declareFile(root, file, found)
		case strings.HasSuffix(file, ".go") && !strings.HasSuffix(file, "_test.go"):
			return declareGo(root, file, found)
		}
		return nil
	})
	return found, err
}

// isForeign reports whether the go command passes over a folder: its name says so, or it is another module.
func isForeign(root, dir string) bool {
	if dir == "." {
		return false
	}
	name := path.Base(dir)
	_, err := os.Stat(filepath.Join(root, dir, "go.mod"))
	return err == nil || name == "testdata" || strings.HasPrefix(name, ".")
}

func declareFile(root, file string, found map[string][]declaration) error {
	content, err := os.ReadFile(filepath.Join(root, file))
	found[file] = []declaration{{file, 0, string(content)}}
	return err
}

func declareGo(root, file string, found map[string][]declaration) error {
	content, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		return err
	}
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, file, content, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	note := func(name string, node ast.Node) {
		if dir := path.Dir(file); dir != engine {
			name = path.Base(dir) + "." + name
		}
		begin, end := files.Position(node.Pos()).Offset, files.Position(node.End()).Offset
		found[name] = append(found[name], declaration{file, begin, string(content[begin:end])})
	}
	for _, decl := range parsed.Decls {
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
