// Renders a Helm chart's templates with the template engine that Helm itself
// uses, Go's text/template: render_chart CHART < CONTEXT. CONTEXT is a JSON
// object with Values, Chart and Release. Of the functions that Helm adds to the
// engine's own, only toJson is known: a template that uses another one is
// refused.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"text/template"
)

func toJson(value interface{}) (string, error) {
	text, err := json.Marshal(value)
	return string(text), err
}

func run(chart string) error {
	var context map[string]interface{}
	if err := json.NewDecoder(os.Stdin).Decode(&context); err != nil {
		return err
	}
	paths, err := filepath.Glob(filepath.Join(chart, "templates", "*"))
	if err != nil {
		return err
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		// Values that nobody set are errors here, not "<no value>".
		parsed, err := template.New(filepath.Base(path)).
			Option("missingkey=error").
			Funcs(template.FuncMap{"toJson": toJson}).Parse(string(text))
		if err != nil {
			return err
		}
		fmt.Println("---")
		if filepath.Ext(path) == ".txt" {
			// Notes are for people, after an installation.
			sink, err := os.Create(os.DevNull)
			if err == nil {
				err = parsed.Execute(sink, context)
			}
			if err != nil {
				return err
			}
			continue
		}
		if err := parsed.Execute(os.Stdout, context); err != nil {
			return err
		}
		fmt.Println()
	}
	return nil
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "render_chart CHART < CONTEXT")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "render_chart:", err)
		os.Exit(1)
	}
}
