// Command protobuf writes the Go code of the .proto files that it is given, beside them. It compiles them itself, so that no protoc
// is needed, and runs the plugins of -plugins.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/linker"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

func main() {
	plugins := flag.String("plugins", "", "protoc plugins to run, separated by commas")
	flag.Parse()
	if err := generate(context.Background(), flag.Args(), strings.Split(*plugins, ",")); err != nil {
		fmt.Fprintln(os.Stderr, "protobuf:", err)
		os.Exit(1)
	}
}

// generate compiles files, whose names are relative to the working directory, and runs each plugin on them.
func generate(ctx context.Context, names, plugins []string) error {
	compiler := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{}),
		SourceInfoMode: protocompile.SourceInfoStandard, // comments become those of the Go code
	}
	files, err := compiler.Compile(ctx, names...)
	if err != nil {
		return err
	}
	request, err := proto.Marshal(&pluginpb.CodeGeneratorRequest{
		FileToGenerate: names,
		Parameter:      proto.String("paths=source_relative"),
		ProtoFile:      descriptors(files),
	})
	if err != nil {
		return err
	}
	for _, plugin := range plugins {
		if err := run(ctx, plugin, request); err != nil {
			return fmt.Errorf("%s: %w", filepath.Base(plugin), err)
		}
	}
	return nil
}

// descriptors are those of the files. They import none: a plugin wants imports before the files that need them.
func descriptors(files linker.Files) []*descriptorpb.FileDescriptorProto {
	out := make([]*descriptorpb.FileDescriptorProto, 0, len(files))
	for _, file := range files {
		out = append(out, protoutil.ProtoFromFileDescriptor(file))
	}
	return out
}

// run has a plugin write its files.
func run(ctx context.Context, plugin string, request []byte) error {
	command := exec.CommandContext(ctx, plugin)
	command.Stdin, command.Stderr = bytes.NewReader(request), os.Stderr
	answer, err := command.Output()
	if err != nil {
		return err
	}
	response := &pluginpb.CodeGeneratorResponse{}
	if err := proto.Unmarshal(answer, response); err != nil {
		return err
	}
	if response.Error != nil {
		return errors.New(response.GetError())
	}
	for _, file := range response.File {
		if err := os.WriteFile(file.GetName(), []byte(file.GetContent()), 0o644); err != nil {
			return err
		}
	}
	return nil
}
