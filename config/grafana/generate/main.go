// Command generate writes Lockstep's Grafana dashboards. They are described here, in one file for each reader, and built with Grafana's
// foundation SDK, which knows the schema of dashboards and panels.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	dir := flag.String("dir", "config/grafana", "folder to write the dashboards to, one JSON file each")
	flag.Parse()
	if err := write(*dir); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

// write puts every dashboard into a file of its name.
func write(dir string) error {
	for _, page := range []page{jobs(), fleet(), operator()} {
		built, err := page.build()
		if err != nil {
			return fmt.Errorf("dashboard %s: %w", page.name, err)
		}
		raw, err := json.MarshalIndent(built, "", "  ")
		if err != nil {
			return fmt.Errorf("dashboard %s: %w", page.name, err)
		}
		if err := os.WriteFile(filepath.Join(dir, page.name+".json"), append(raw, '\n'), 0o644); err != nil {
			return err
		}
	}
	return nil
}
