// What an image holds beside a program of ours.

package images

import (
	"debug/elf"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// Part is somebody else's work in an image: a package of a distribution, or a library.
type Part struct {
	Name, Version string
	// URL is a package URL: https://github.com/package-url/purl-spec.
	URL string
	// SHA256 is the checksum of the file that it was taken from.
	SHA256 string
	// License is an expression of SPDX; not asserted where it is empty.
	License string
	// Files and Links are what the image holds of it, as in Image.
	Files, Links map[string]string
}

// holding is an image with parts beside what it has.
func (i Image) holding(parts []Part) Image {
	i.Files, i.Links = maps.Clone(i.Files), maps.Clone(i.Links)
	if i.Links == nil {
		i.Links = map[string]string{}
	}
	for _, part := range parts {
		maps.Copy(i.Files, part.Files)
		maps.Copy(i.Links, part.Links)
	}
	return i
}

// machines are the architectures of ELF files by Go's names.
var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// checkLinks returns an error where a program or library of the image would not find a library that it is linked to, or a version of its
// symbols: on a node it would not start.
func (i Image) checkLinks() error {
	defined := map[string][]string{} // versions of symbols by library
	needed := map[string][]elf.DynamicVersionNeed{}
	libraries := map[string][]string{}
	for target, source := range i.Files {
		file, err := elf.Open(source)
		if format, ok := errors.AsType[*elf.FormatError](err); ok && format != nil {
			continue // a licence
		}
		if err != nil {
			return err
		}
		defer file.Close()
		if want := machines[i.architecture()]; file.Machine != want {
			return fmt.Errorf("%s is for %s, and the image for %s", source, file.Machine, i.architecture())
		}
		if libraries[target], err = file.ImportedLibraries(); err != nil {
			return fmt.Errorf("the libraries of %s: %w", source, err)
		}
		versions, _ := file.DynamicVersions() // none: it has no section for them
		for _, v := range versions {
			defined[path.Base(target)] = append(defined[path.Base(target)], v.Name)
		}
		needed[target], _ = file.DynamicVersionNeeds()
	}
	for target, link := range i.Links {
		defined[path.Base(target)] = append(defined[path.Base(target)], defined[path.Base(link)]...)
	}
	return errors.Join(i.missingLibraries(libraries), missingVersions(needed, defined))
}

func (i Image) missingLibraries(libraries map[string][]string) error {
	has := map[string]bool{}
	for _, target := range slices.Concat(slices.Collect(maps.Keys(i.Files)), slices.Collect(maps.Keys(i.Links))) {
		has[path.Base(target)] = true
	}
	for _, target := range slices.Sorted(maps.Keys(libraries)) {
		for _, library := range libraries[target] {
			if !has[library] {
				return fmt.Errorf("%s is linked to %s, which the image does not have", target, library)
			}
		}
	}
	return nil
}

func missingVersions(needed map[string][]elf.DynamicVersionNeed, defined map[string][]string) error {
	for _, target := range slices.Sorted(maps.Keys(needed)) {
		for _, need := range needed[target] {
			for _, version := range need.Needs {
				if !slices.Contains(defined[need.Name], version.Dep) {
					return fmt.Errorf("%s needs %s of %s, and the newest that the image has is %s: build it on a system that is as old as the image's libraries",
						target, version.Dep, need.Name, newest(defined[need.Name], version.Dep))
				}
			}
		}
	}
	return nil
}

// newest is the last of the versions with the same prefix as another, such as GLIBC_: libraries list them in order.
func newest(versions []string, like string) string {
	prefix, _, _ := strings.Cut(like, "_")
	for _, version := range slices.Backward(versions) {
		if strings.HasPrefix(version, prefix+"_") && !strings.HasSuffix(version, "PRIVATE") {
			return version
		}
	}
	return "none"
}
