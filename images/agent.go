package images

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/lockstep-dev/lockstep/images/debian"
)

// dcgmLibrary is the name by which the agent asks the dynamic linker for DCGM's library.
const dcgmLibrary = "libdcgm.so.4"

// Agent is the health agent's program, on glibc and the libraries of C++ that DCGM's library may ask for. dcgm is the folder that
// libdcgm.so.4 is copied from; where it is empty the image has none, and a node's is mounted. The agent is root, since the kubelet's
// socket, which says who holds which GPU, is root's.
func Agent(root string, packages debian.Store, dcgm string) Program {
	return Program{
		Root: root, Package: "./cmd/health-agent",
		Image: Image{
			User: "0:0",
			Labels: map[string]string{
				"org.opencontainers.image.title":       "lockstep-health-agent",
				"org.opencontainers.image.description": "Lockstep's health agent",
				"org.opencontainers.image.licenses":    "Apache-2.0",
			},
		},
		Parts: func(ctx context.Context, dir, architecture string) ([]Part, error) {
			parts, err := debianParts(ctx, packages, dir, architecture)
			if err != nil || dcgm == "" {
				return parts, err
			}
			library, err := dcgmPart(dcgm)
			return append(parts, library), err
		},
	}
}

// debianParts are the pinned packages.
func debianParts(ctx context.Context, store debian.Store, dir, architecture string) ([]Part, error) {
	packages, err := debian.Packages()
	if err != nil {
		return nil, err
	}
	if err := store.Fetch(ctx, architecture, packages); err != nil {
		return nil, err
	}
	var parts []Part
	for _, p := range packages {
		content, err := store.Unpack(ctx, p, architecture, dir)
		if err != nil {
			return nil, err
		}
		parts = append(parts, Part{
			Name: p.Name, Version: p.Version, URL: p.URL(architecture), SHA256: p.SHA256[architecture], License: p.License,
			Files: content.Files, Links: content.Links,
		})
	}
	return parts, nil
}

// dcgmPart is DCGM's library, of a folder. Its version is what the file that libdcgm.so.4 links to is called, such as libdcgm.so.4.6.0.
func dcgmPart(dir string) (Part, error) {
	file, err := filepath.EvalSymlinks(filepath.Join(dir, dcgmLibrary))
	if errors.Is(err, os.ErrNotExist) {
		return Part{}, fmt.Errorf("%s has no %s, which -dcgm has to have: it is in NVIDIA's package datacenter-gpu-manager-4-core", dir, dcgmLibrary)
	}
	if err != nil {
		return Part{}, err
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return Part{}, err
	}
	sum := sha256.Sum256(content)
	version := strings.TrimPrefix(filepath.Base(file), "libdcgm.so.")
	return Part{
		Name: "libdcgm", Version: version, URL: "pkg:generic/libdcgm@" + version, SHA256: hex.EncodeToString(sum[:]),
		Files: map[string]string{"/usr/lib/" + dcgmLibrary: file},
	}, nil
}
