package images_test

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"

	"github.com/lockstep-dev/lockstep/images"
	"github.com/lockstep-dev/lockstep/test/check"
)

const ref = "lockstep-pause:dev"

// pause is a small program, built for both architectures.
func pause(t *testing.T) images.Built {
	t.Helper()
	program := images.Program{Root: "..", Package: "./test/pause", Builder: "https://example.org/ci", Image: images.Image{User: "65532:65532"}}
	built, err := program.Write(t.Context(), t.TempDir(), ref, "amd64", "arm64")
	if err != nil {
		t.Fatal(err)
	}
	return built
}

// unpack reads an archive as any program that follows the OCI's image layout does.
func unpack(t *testing.T, archive string) v1.ImageIndex {
	t.Helper()
	dir := t.TempDir()
	file, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for files := tar.NewReader(file); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(files)
		path := filepath.Join(dir, header.Name)
		if err := errors.Join(err, os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, content, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	return index
}

func manifestOf(t *testing.T, index v1.ImageIndex) *v1.IndexManifest {
	t.Helper()
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	return manifest
}

func TestAnArchiveHasAnImageForEachArchitecture(t *testing.T) {
	all := unpack(t, pause(t).Archive)
	entries := manifestOf(t, all).Manifests
	check.Equal(t, "entries of the archive", 1, len(entries))
	check.Equal(t, "name for containerd", "docker.io/library/"+ref, entries[0].Annotations["io.containerd.image.name"])
	index, err := all.ImageIndex(entries[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	machines := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}
	for _, entry := range manifestOf(t, index).Manifests {
		image, err := index.Image(entry.Digest)
		if err != nil {
			t.Fatal(err)
		}
		if entry.Platform.OS == "unknown" {
			continue
		}
		config, err := image.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		check.Equal(t, "architecture", entry.Platform.Architecture, config.Architecture)
		check.Equal(t, "user", "65532:65532", config.Config.User)
		check.Equal(t, "entrypoint", "/pause", strings.Join(config.Config.Entrypoint, " "))
		check.Equal(t, "machine", machines[entry.Platform.Architecture], machineOf(t, image))
		delete(machines, entry.Platform.Architecture)
	}
	check.Equal(t, "architectures without an image", 0, len(machines))
}

// machineOf is the machine that the program in an image is for.
func machineOf(t *testing.T, image v1.Image) elf.Machine {
	t.Helper()
	layers, err := image.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers: %v", len(layers), err)
	}
	content, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	for files := tar.NewReader(content); ; {
		header, err := files.Next()
		if err != nil {
			t.Fatal(err)
		}
		if header.Name != "pause" {
			continue
		}
		raw, err := io.ReadAll(files)
		if err != nil {
			t.Fatal(err)
		}
		program, err := elf.NewFile(bytes.NewReader(raw))
		if err != nil {
			t.Fatal(err)
		}
		return program.Machine
	}
}

// What is attested of an image names its digest, in the archive and beside it.
func TestAnArchiveSaysWhatItWasBuiltFrom(t *testing.T) {
	built := pause(t)
	all := unpack(t, built.Archive)
	index, err := all.ImageIndex(manifestOf(t, all).Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	var subjects, attested []string
	for _, entry := range manifestOf(t, index).Manifests {
		if entry.Annotations["vnd.docker.reference.type"] != "attestation-manifest" {
			subjects = append(subjects, entry.Digest.String())
			continue
		}
		attested = append(attested, entry.Annotations["vnd.docker.reference.digest"])
		image, err := index.Image(entry.Digest)
		if err != nil {
			t.Fatal(err)
		}
		layers, err := image.Layers()
		if err != nil {
			t.Fatal(err)
		}
		for _, layer := range layers {
			content, err := layer.Compressed()
			if err != nil {
				t.Fatal(err)
			}
			raw, err := io.ReadAll(content)
			if err != nil {
				t.Fatal(err)
			}
			readStatement(t, raw, attested[len(attested)-1])
		}
		check.Equal(t, "statements", 2, len(layers))
	}
	slices.Sort(subjects)
	slices.Sort(attested)
	check.Equal(t, "images that are attested", strings.Join(subjects, " "), strings.Join(attested, " "))
	check.Equal(t, "files beside the archive", 4, len(built.Statements))
}

// Pods call the supervisor by its path in the image.
func TestTheImageOfTheSupervisor(t *testing.T) {
	built, err := images.Supervisor("..").Write(t.Context(), t.TempDir(), "lockstep-run:dev", runtime.GOARCH)
	if err != nil {
		t.Fatal(err)
	}
	check.Equal(t, "archive", "lockstep-run.tar", filepath.Base(built.Archive))
	all := unpack(t, built.Archive)
	index, err := all.ImageIndex(manifestOf(t, all).Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	image, err := index.Image(manifestOf(t, index).Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	check.Equal(t, "entrypoint", "/lockstep-run", strings.Join(config.Config.Entrypoint, " "))
	check.Equal(t, "user", "65532:65532", config.Config.User)
}

type statement struct {
	PredicateType string
	Subject       []struct{ Digest map[string]string }
	Predicate     struct {
		Packages        []struct{ Name string }
		BuildDefinition struct{ ExternalParameters struct{ Package string } }
		RunDetails      struct{ Builder struct{ ID string } }
	}
}

func readStatement(t *testing.T, raw []byte, digest string) {
	t.Helper()
	var s statement
	if err := json.Unmarshal(raw, &s); err != nil {
		t.Fatal(err)
	}
	check.Equal(t, "subject", digest, "sha256:"+s.Subject[0].Digest["sha256"])
	switch s.PredicateType {
	case images.PredicateSPDX:
		var names []string
		for _, p := range s.Predicate.Packages {
			names = append(names, p.Name)
		}
		check.Equal(t, "packages", "github.com/lockstep-dev/lockstep stdlib", strings.Join(names, " "))
	case images.PredicateProvenance:
		check.Equal(t, "package", "github.com/lockstep-dev/lockstep/test/pause", s.Predicate.BuildDefinition.ExternalParameters.Package)
		check.Equal(t, "builder", "https://example.org/ci", s.Predicate.RunDetails.Builder.ID)
	default:
		t.Errorf("an unknown predicate: %s", s.PredicateType)
	}
}

func TestTheSameSourceComesToTheSameArchive(t *testing.T) {
	var archives [2][]byte
	for i := range archives {
		raw, err := os.ReadFile(pause(t).Archive)
		if err != nil {
			t.Fatal(err)
		}
		archives[i] = raw
	}
	if !bytes.Equal(archives[0], archives[1]) {
		t.Error("two archives of the same source differ")
	}
}
