package dist

import (
	"bytes"
	_ "embed"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"text/template"
)

// Manifest is the name of krew's manifest: that of the plugin, as krew wants it.
const Manifest = "lockstep.yaml"

//go:embed lockstep.yaml.tmpl
var manifestText string

var manifestTemplate = template.Must(template.New(Manifest).Option("missingkey=error").Parse(manifestText))

// semantic is a version as krew takes it: v1.2.3, with what semantic versions may have after that.
var semantic = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$`)

// manifest fills in the template.
func (r Release) manifest(archives []packed) ([]byte, error) {
	base, err := url.Parse(r.URL)
	if err != nil || base.Scheme != "https" || base.Host == "" {
		return nil, fmt.Errorf("-url: %q has to be the address of a folder, like https://downloads.example/lockstep/v1.2.0", r.URL)
	}
	version := r.Version
	if version == "" && len(archives) > 0 {
		version = archives[0].version
	}
	if !semantic.MatchString(version) {
		return nil, fmt.Errorf("the program says version %q, which krew does not take: build it of a commit with a tag like v1.2.0", version)
	}
	var out bytes.Buffer
	err = manifestTemplate.Execute(&out, map[string]any{"Version": version, "URL": strings.TrimSuffix(r.URL, "/"), "Archives": archives})
	return out.Bytes(), err
}
