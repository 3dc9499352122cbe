package images

import (
	"bytes"
	"context"
	"encoding/json"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	intoto "github.com/in-toto/attestation/go/v1"
	spdxjson "github.com/spdx/tools-golang/json"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"
)

// Types of what is attested of an image.
const (
	PredicateSPDX       = "https://spdx.dev/Document"
	PredicateProvenance = "https://slsa.dev/provenance/v1"
)

// mediaTypeInToto is that of a layer with a statement, and annotationPredicate says which: as BuildKit attaches attestations to images.
const (
	mediaTypeInToto     = types.MediaType("application/vnd.in-toto+json")
	annotationPredicate = "in-toto.io/predicate-type"
)

// statements are what is attested of an image that runs a program: its SBOM and its provenance, each an in-toto statement in JSON.
func (p Program) statements(ctx context.Context, binary, ref string, image v1.Image, parts []Part) (map[string][]byte, error) {
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	document, err := SBOM(binary, ref, config.Created.Time, parts...)
	if err != nil {
		return nil, err
	}
	var sbom bytes.Buffer
	if err := spdxjson.Write(document, &sbom); err != nil {
		return nil, err
	}
	compiler := ""
	if p.Parts != nil {
		if compiler, err = compilerVersion(ctx, config.Architecture); err != nil {
			return nil, err
		}
	}
	provenance, err := Provenance(binary, p.Builder, compiler, parts...)
	if err != nil {
		return nil, err
	}
	built, err := protojson.Marshal(provenance)
	if err != nil {
		return nil, err
	}
	out := map[string][]byte{}
	for predicate, content := range map[string][]byte{PredicateSPDX: sbom.Bytes(), PredicateProvenance: built} {
		if out[predicate], err = statement(predicate, content, ref, image); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// statement says something, in JSON, of an image.
func statement(predicate string, content []byte, ref string, image v1.Image) ([]byte, error) {
	digest, err := image.Digest()
	if err != nil {
		return nil, err
	}
	said := &structpb.Struct{}
	if err := protojson.Unmarshal(content, said); err != nil {
		return nil, err
	}
	raw, err := protojson.Marshal(&intoto.Statement{
		Type: intoto.StatementTypeUri, PredicateType: predicate, Predicate: said,
		Subject: []*intoto.ResourceDescriptor{{Name: ref, Digest: map[string]string{digest.Algorithm: digest.Hex}}},
	})
	if err != nil {
		return nil, err
	}
	var ordered any // protojson varies its spaces on purpose
	if err := json.Unmarshal(raw, &ordered); err != nil {
		return nil, err
	}
	return json.MarshalIndent(ordered, "", "  ")
}

// attach makes an image whose layers are statements about another one.
func attach(statements map[string][]byte) (v1.Image, error) {
	image := emptyImage()
	for _, predicate := range []string{PredicateSPDX, PredicateProvenance} {
		var err error
		image, err = mutate.Append(image, mutate.Addendum{
			Layer:       static.NewLayer(statements[predicate], mediaTypeInToto),
			MediaType:   mediaTypeInToto,
			Annotations: map[string]string{annotationPredicate: predicate},
		})
		if err != nil {
			return nil, err
		}
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = unknown, unknown
	return mutate.ConfigFile(image, config)
}

// unknown is the platform of what no machine runs.
const unknown = "unknown"

// described are the annotations of attestations in an index: what they are, and of which image.
func described(image v1.Hash) v1.Descriptor {
	return v1.Descriptor{
		Platform: &v1.Platform{OS: unknown, Architecture: unknown},
		Annotations: map[string]string{
			"vnd.docker.reference.type":   "attestation-manifest",
			"vnd.docker.reference.digest": image.String(),
		},
	}
}
