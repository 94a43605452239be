package config

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
)

// comments reads the doc comments of the types of the tree and of their
// fields, by `Type` and `Type.Field`.
func comments() (map[string]string, error) {
	files, err := sources.ReadDir(".")
	if err != nil {
		return nil, err
	}
	docs := map[string]string{}
	for _, file := range files {
		source, err := sources.ReadFile(file.Name())
		if err != nil {
			return nil, err
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file.Name(), source, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, decl := range parsed.Decls {
			if d, ok := decl.(*ast.GenDecl); ok && d.Tok == token.TYPE {
				typeComments(docs, d)
			}
		}
	}
	return docs, nil
}

func typeComments(docs map[string]string, decl *ast.GenDecl) {
	for _, spec := range decl.Specs {
		t, ok := spec.(*ast.TypeSpec)
		if !ok {
			continue
		}
		docs[t.Name.Name] = oneLine(decl.Doc)
		s, ok := t.Type.(*ast.StructType)
		if !ok {
			continue
		}
		for _, f := range s.Fields.List {
			for _, name := range f.Names {
				docs[t.Name.Name+"."+name.Name] = oneLine(f.Doc)
			}
		}
	}
}

func oneLine(doc *ast.CommentGroup) string {
	return strings.Join(strings.Fields(doc.Text()), " ")
}
