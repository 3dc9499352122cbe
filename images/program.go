package images

import (
	"context"
	"debug/buildinfo"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Program is a Go program of the repository that images run.
type Program struct {
	// Root is the folder of the repository.
	Root string
	// Package is the program's, such as ./cmd/manager.
	Package string
	// Image is what the images hold besides the program, and how they are run.
	Image Image
	// Builder identifies who builds, as a URI, in the provenance.
	Builder string
	// Parts returns what the program needs beside it on an architecture, unpacked into a folder where that is needed. A program that
	// has it is linked by the C compiler; one without it is static.
	Parts func(ctx context.Context, dir, architecture string) ([]Part, error)
}

// Built is what Write has written.
type Built struct {
	// Archive is the path of the OCI archive, and Statements are the paths of what is attested of each of its images.
	Archive    string
	Statements []string
}

// Write builds the program for each architecture and writes the images, under one name, into one OCI archive in dir. What is
// attested of each image is in the archive, and in files beside it.
func (p Program) Write(ctx context.Context, dir, ref string, architectures ...string) (Built, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return Built{}, err
	}
	name := filepath.Join(dir, filepath.Base(p.Package))
	index, out := mutate.IndexMediaType(empty.Index, types.OCIImageIndex), Built{Archive: name + ".tar"}
	for _, architecture := range architectures {
		image, statements, err := p.build(ctx, name, ref, architecture)
		if err != nil {
			return Built{}, fmt.Errorf("image %s for %s: %w", ref, architecture, err)
		}
		if index, err = appendAttested(index, image, statements); err != nil {
			return Built{}, fmt.Errorf("image %s for %s: %w", ref, architecture, err)
		}
		for predicate, file := range map[string]string{PredicateSPDX: ".spdx.json", PredicateProvenance: ".provenance.json"} {
			path := name + "-" + architecture + file
			if err := os.WriteFile(path, statements[predicate], 0o644); err != nil {
				return Built{}, err
			}
			out.Statements = append(out.Statements, path)
		}
	}
	slices.Sort(out.Statements)
	return out, writeArchive(out.Archive, ref, index)
}

// build builds the image for one architecture, and says what is attested of it.
func (p Program) build(ctx context.Context, name, ref, architecture string) (v1.Image, map[string][]byte, error) {
	dir, err := os.MkdirTemp(filepath.Dir(name), ".build-")
	if err != nil {
		return nil, nil, err
	}
	defer os.RemoveAll(dir)
	binary := filepath.Join(dir, filepath.Base(name))
	var parts []Part
	if p.Parts == nil {
		err = Compile(ctx, p.Root, p.Package, architecture, binary)
	} else if err = compileC(ctx, p.Root, p.Package, architecture, binary); err == nil {
		parts, err = p.Parts(ctx, filepath.Join(dir, "parts"), architecture)
	}
	if err != nil {
		return nil, nil, err
	}
	image := p.Image.with(binary).holding(parts)
	image.Architecture = architecture
	if err := image.checkLinks(); err != nil {
		return nil, nil, err
	}
	if image.Created, err = committed(binary); err != nil {
		return nil, nil, err
	}
	built, err := image.Build()
	if err != nil {
		return nil, nil, err
	}
	statements, err := p.statements(ctx, binary, ref, built, parts)
	return built, statements, err
}

// committed is when the commit was made that a program was built from; zero where it does not say.
func committed(binary string) (time.Time, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return time.Time{}, err
	}
	at := setting(info, "vcs.time")
	if at == "" {
		return time.Time{}, nil
	}
	return time.Parse(time.RFC3339, at)
}

// appendAttested adds an image to an index, with what is attested of it.
func appendAttested(index v1.ImageIndex, image v1.Image, statements map[string][]byte) (v1.ImageIndex, error) {
	digest, err := image.Digest()
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	attestations, err := attach(statements)
	if err != nil {
		return nil, err
	}
	return mutate.AppendManifests(index,
		mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: config.Platform()}},
		mutate.IndexAddendum{Add: attestations, Descriptor: described(digest)},
	), nil
}

// BuildProgram builds a Go program of the repository at root and puts it into an image for this machine, whose archive it writes
// into dir and returns. The program is the entrypoint.
func BuildProgram(ctx context.Context, root, dir, pkg, ref string, image Image) (archive string, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	binary := filepath.Join(dir, filepath.Base(pkg))
	if err := Compile(ctx, root, pkg, image.architecture(), binary); err != nil {
		return "", err
	}
	archive = binary + ".tar"
	return archive, WriteArchive(archive, ref, image.with(binary))
}

// with is an image that runs a program.
func (i Image) with(binary string) Image {
	target := "/" + filepath.Base(binary)
	i.Files, i.Entrypoint = map[string]string{target: binary}, []string{target}
	return i
}
