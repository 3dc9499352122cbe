package images

import (
	"cmp"
	"debug/buildinfo"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spdx/tools-golang/spdx"
	"github.com/spdx/tools-golang/spdx/v2/common"
)

// SBOM returns the SPDX document of a Go program: the modules that are linked into it, as the program itself names them, and Go's
// standard library; and the other parts of its image.
func SBOM(binary, ref string, created time.Time, parts ...Part) (*spdx.Document, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return nil, fmt.Errorf("what %s was built from: %w", binary, err)
	}
	program := modulePackage(info.Main.Path, info.Main.Version)
	document := &spdx.Document{
		SPDXVersion: spdx.Version, DataLicense: spdx.DataLicense, SPDXIdentifier: "DOCUMENT",
		DocumentName:      ref,
		DocumentNamespace: "https://lockstep.dev/spdx/" + ref + "/" + setting(info, "GOARCH") + "/" + info.Main.Version,
		CreationInfo: &spdx.CreationInfo{
			Created:  created.UTC().Format(time.RFC3339),
			Creators: []spdx.Creator{{CreatorType: "Tool", Creator: "lockstep-images"}},
		},
		Packages:      []*spdx.Package{program},
		Relationships: []*spdx.Relationship{relationship("DOCUMENT", "DESCRIBES", program.PackageSPDXIdentifier)},
	}
	depend := func(p *spdx.Package) {
		document.Packages = append(document.Packages, p)
		document.Relationships = append(document.Relationships, relationship(program.PackageSPDXIdentifier, "DEPENDS_ON", p.PackageSPDXIdentifier))
	}
	for _, dep := range info.Deps {
		if dep.Replace != nil {
			dep = dep.Replace
		}
		depend(modulePackage(dep.Path, dep.Version))
	}
	depend(modulePackage("stdlib", strings.TrimPrefix(info.GoVersion, "go")))
	for _, part := range parts {
		depend(part.spdx())
	}
	return document, nil
}

// modulePackage is a Go module as a package of an SPDX document.
func modulePackage(path, version string) *spdx.Package {
	return Part{Name: path, Version: version, URL: "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")}.spdx()
}

// spdx is a part as a package of an SPDX document.
func (p Part) spdx() *spdx.Package {
	id := strings.Map(func(r rune) rune {
		if strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-", r) {
			return r
		}
		return '-'
	}, p.Name+"-"+p.Version)
	out := &spdx.Package{
		PackageName: p.Name, PackageVersion: p.Version, PackageSPDXIdentifier: common.ElementID("Package-" + id),
		PackageDownloadLocation: "NOASSERTION", PackageLicenseConcluded: "NOASSERTION", PackageLicenseDeclared: cmp.Or(p.License, "NOASSERTION"),
		PackageCopyrightText: "NOASSERTION",
		PackageExternalReferences: []*spdx.PackageExternalReference{{
			Category: common.CategoryPackageManager, RefType: common.TypePackageManagerPURL, Locator: p.URL,
		}},
	}
	if p.SHA256 != "" {
		out.PackageChecksums = []common.Checksum{{Algorithm: common.SHA256, Value: p.SHA256}}
	}
	return out
}

func relationship(from common.ElementID, kind string, to common.ElementID) *spdx.Relationship {
	return &spdx.Relationship{
		RefA: common.DocElementID{ElementRefID: from}, Relationship: kind, RefB: common.DocElementID{ElementRefID: to},
	}
}

// setting is a setting of the build, such as vcs.revision; empty for none.
func setting(info *debug.BuildInfo, key string) string {
	for _, s := range info.Settings {
		if s.Key == key {
			return s.Value
		}
	}
	return ""
}
