package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/hanzoai/pqgw"
	"github.com/hanzoai/pqgw/config"
)

func init() { commands = append(commands, newConfig) }

// resolvers give the values of `${scheme:name}` in configuration files; rooms
// that hold values add theirs when the program starts.
var resolvers = map[string]config.Resolver{}

// stores are the key stores that configuration files name, for the life of the
// process.
var stores pqgw.Stores

// loadOptions are those of every configuration file.
func loadOptions() config.Options {
	return config.Options{Resolvers: resolvers, KMS: stores.Resolver}
}

// loadConfig reads a configuration file and writes its warnings to warn. A
// file that is missing or wrong ends the process with exitConfig.
func loadConfig(path string, warn io.Writer) (*config.Tree, error) {
	tree, warnings, err := config.LoadWith(path, loadOptions())
	printWarnings(warn, warnings)
	return tree, withCode(exitConfig, err)
}

func printWarnings(w io.Writer, warnings config.Warnings) {
	for _, p := range warnings {
		fmt.Fprintln(w, messageStart+"warning: "+p.Text())
	}
}

func newConfig() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Check and explain a configuration file, or print its schema",
	}
	cmd.AddCommand(newConfigValidate(), newConfigSchema(), newConfigExplain())
	return cmd
}

// configFile adds -c, and returns what gives the file that is meant: that of
// -c or of the only argument.
func configFile(cmd *cobra.Command) func(args []string) (string, error) {
	var file string
	cmd.Args = cobra.MaximumNArgs(1)
	cmd.Flags().StringVarP(&file, "config", "c", "", "the configuration file")
	return func(args []string) (string, error) {
		switch {
		case file != "" && len(args) == 0:
			return file, nil
		case file == "" && len(args) == 1:
			return args[0], nil
		}
		return "", withCode(exitUsage, fmt.Errorf("name one configuration file; see '%s --help'", cmd.CommandPath()))
	}
}

func newConfigValidate() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "validate [-c] FILE",
		Short: "Check a configuration file; exits 3 where it is wrong",
		Long: "Checks a configuration file without starting anything and without opening the files that it names,\n" +
			"except for those of ${file:…}. All problems are reported at once. Warnings do not make it invalid.",
		Example: "  pqgw config validate -c pqgw.yaml",
	}
	file := configFile(cmd)
	outputFlag(cmd, &output)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkOutput(output); err != nil {
			return err
		}
		path, err := file(args)
		if err != nil {
			return err
		}
		if output == "json" {
			return validateJSON(cmd.OutOrStdout(), path)
		}
		tree, err := loadConfig(path, cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s is valid: %s\n", path, configSummary(tree))
		return err
	}
	return cmd
}

// validation is what `config validate --output json` prints.
type validation struct {
	Valid    bool             `json:"valid"`
	Problems []config.Problem `json:"problems"`
	Warnings config.Warnings  `json:"warnings"`
}

func validateJSON(w io.Writer, path string) error {
	_, warnings, err := config.LoadWith(path, loadOptions())
	v := validation{Valid: err == nil, Problems: []config.Problem{}, Warnings: append(config.Warnings{}, warnings...)}
	var problems *config.Problems
	switch {
	case errors.As(err, &problems):
		v.Problems = problems.List
		err = fmt.Errorf("%s: configuration invalid", path)
	case err != nil:
		v.Problems = []config.Problem{{File: path, Message: err.Error()}}
	}
	if printErr := printJSON(w, v); printErr != nil {
		return printErr
	}
	return withCode(exitConfig, err)
}

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

func configSummary(t *config.Tree) string {
	return fmt.Sprintf("%s, %s, %s", countOf(len(t.Listeners), "listener"), countOf(len(t.Routes), "route"), countOf(len(t.Upstreams), "upstream"))
}

func countOf(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func newConfigSchema() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of the configuration file, for editors",
		Long: "Prints the JSON Schema (draft 2020-12) of the configuration file. Editors that use the YAML language\n" +
			"server take it from a first line such as\n\n  # yaml-language-server: $schema=pqgw.schema.json",
		Example: "  pqgw config schema > pqgw.schema.json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := cmd.OutOrStdout().Write(config.Schema())
			return err
		},
	}
}
