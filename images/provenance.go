package images

import (
	"debug/buildinfo"
	"fmt"
	"strings"

	provenance "github.com/in-toto/attestation/go/predicates/provenance/v1"
	intoto "github.com/in-toto/attestation/go/v1"
	"google.golang.org/protobuf/types/known/structpb"
)

// buildType names how the images are built; images/README.md describes it.
const buildType = "https://lockstep.dev/images/v1"

// Provenance returns SLSA's provenance of a Go program's image: the commit, the version of Go and what it was built with. It says
// nothing of when and on which machine, so that the same commit comes to the same archive. A program that links C names its C compiler.
func Provenance(binary, builder, compiler string, parts ...Part) (*provenance.Provenance, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return nil, fmt.Errorf("what %s was built from: %w", binary, err)
	}
	parameters := map[string]any{"package": info.Path}
	for _, key := range []string{"GOOS", "GOARCH", "CGO_ENABLED", "-trimpath", "-tags", "vcs.modified"} {
		if value := setting(info, key); value != "" {
			parameters[strings.TrimPrefix(key, "-")] = value
		}
	}
	if compiler != "" {
		parameters["CC"] = compiler
	}
	external, err := structpb.NewStruct(parameters)
	if err != nil {
		return nil, err
	}
	dependencies := []*intoto.ResourceDescriptor{{Uri: "pkg:golang/stdlib@" + strings.TrimPrefix(info.GoVersion, "go")}}
	if revision := setting(info, "vcs.revision"); revision != "" {
		source := &intoto.ResourceDescriptor{Uri: "git+https://" + info.Main.Path, Digest: map[string]string{"gitCommit": revision}}
		dependencies = append([]*intoto.ResourceDescriptor{source}, dependencies...)
	}
	for _, part := range parts {
		dependencies = append(dependencies, &intoto.ResourceDescriptor{Uri: part.URL, Digest: map[string]string{"sha256": part.SHA256}})
	}
	return &provenance.Provenance{
		BuildDefinition: &provenance.BuildDefinition{BuildType: buildType, ExternalParameters: external, ResolvedDependencies: dependencies},
		RunDetails:      &provenance.RunDetails{Builder: &provenance.Builder{Id: builder}},
	}, nil
}
