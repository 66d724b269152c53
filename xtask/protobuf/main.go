// Prints how the built-in kinds are laid out in protobuf, read off the Go types themselves:
// field numbers and kinds from their tags, and what their JSON would leave out. See ../src/protobuf.rs.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"sort"
	"strconv"
	"strings"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
)

// Flags of a field.
const (
	pointer   = 1 // absent and zero differ
	omitEmpty = 2 // JSON leaves a zero out
	inline    = 4 // its fields stand in the parent
	omitZero  = 8 // JSON leaves an empty struct out
)

// Types that JSON writes in a way of their own.
var special = map[reflect.Type]string{
	reflect.TypeOf(metav1.Time{}):                                 "time",
	reflect.TypeOf(metav1.MicroTime{}):                            "micro",
	reflect.TypeOf(metav1.Duration{}):                             "duration",
	reflect.TypeOf(metav1.FieldsV1{}):                             "fields",
	reflect.TypeOf(resource.Quantity{}):                           "quantity",
	reflect.TypeOf(intstr.IntOrString{}):                          "intstr",
	reflect.TypeOf(runtime.RawExtension{}):                        "raw",
	reflect.TypeOf(apiextensions.JSON{}):                          "json",
	reflect.TypeOf(apiextensions.JSONSchemaPropsOrArray{}):        "or-array",
	reflect.TypeOf(apiextensions.JSONSchemaPropsOrBool{}):         "or-bool",
	reflect.TypeOf(apiextensions.JSONSchemaPropsOrStringArray{}):  "or-strings",
}

type message struct {
	name   string
	fields [][4]any
}

var (
	messages []*message
	indices  = map[reflect.Type]int{}
)

func index(t reflect.Type) int {
	if i, ok := indices[t]; ok {
		return i
	}
	i := len(messages)
	indices[t] = i
	m := &message{name: t.Name(), fields: [][4]any{}}
	messages = append(messages, m)
	for n := 0; n < t.NumField(); n++ {
		f := t.Field(n)
		tag := f.Tag.Get("protobuf")
		if tag == "" || tag == "-" {
			continue
		}
		number, err := strconv.Atoi(strings.Split(tag, ",")[1])
		if err != nil {
			panic(fmt.Sprintf("%s.%s: %s", t, f.Name, tag))
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		flags := 0
		if strings.Contains(options, "inline") || (name == "" && f.Anonymous) {
			flags |= inline
		}
		if strings.Contains(options, "omitempty") {
			flags |= omitEmpty
		}
		if strings.Contains(options, "omitzero") {
			flags |= omitZero
		}
		ft := f.Type
		if ft.Kind() == reflect.Pointer {
			flags |= pointer
			ft = ft.Elem()
		}
		m.fields = append(m.fields, [4]any{number, name, kind(ft), flags})
	}
	sort.Slice(m.fields, func(a, b int) bool { return m.fields[a][0].(int) < m.fields[b][0].(int) })
	return i
}

type protoMessage interface{ ProtoMessage() }

func kind(t reflect.Type) string {
	if word, ok := special[t]; ok {
		if strings.HasPrefix(word, "or-") {
			index(reflect.TypeOf(apiextensions.JSONSchemaProps{}))
		}
		return word
	}
	switch t.Kind() {
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "bool"
	case reflect.Int32, reflect.Int64, reflect.Int, reflect.Uint32, reflect.Uint64, reflect.Uint8:
		return "int"
	case reflect.Float64:
		return "double"
	case reflect.Struct:
		return strconv.Itoa(index(t))
	case reflect.Pointer:
		return kind(t.Elem())
	case reflect.Map:
		return "{}" + kind(t.Elem())
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "bytes"
		}
		// A list with a name of its own is a message with one field.
		if t.Name() != "" && reflect.PointerTo(t).Implements(reflect.TypeOf((*protoMessage)(nil)).Elem()) {
			return "items:" + kind(t.Elem())
		}
		return "[]" + kind(t.Elem())
	}
	panic(t.String())
}

func main() {
	all := runtime.NewScheme()
	if err := scheme.AddToScheme(all); err != nil {
		panic(err)
	}
	if err := apiextensions.AddToScheme(all); err != nil {
		panic(err)
	}
	served := map[schema.GroupVersion]bool{}
	for _, text := range os.Args[2:] {
		gv, err := schema.ParseGroupVersion(text)
		if err != nil {
			panic(err)
		}
		served[gv] = true
	}
	known := all.AllKnownTypes()
	var gvks []schema.GroupVersionKind
	for gvk := range known {
		options := strings.HasSuffix(gvk.Kind, "Options") && gvk.Kind != "DeleteOptions"
		if served[gvk.GroupVersion()] && !options && !strings.HasSuffix(gvk.Kind, "List") && gvk.Kind != "WatchEvent" {
			gvks = append(gvks, gvk)
		}
	}
	sort.Slice(gvks, func(a, b int) bool { return gvks[a].String() < gvks[b].String() })
	if os.Args[1] == "cases" {
		cases(all, gvks)
		return
	}
	kinds := map[string]int{}
	for _, gvk := range gvks {
		kinds[gvk.Group+"/"+gvk.Version+"/"+gvk.Kind] = index(known[gvk])
	}
	table := make([][][4]any, len(messages))
	schemaProps := 0
	for i, m := range messages {
		table[i] = m.fields
		if m.name == "JSONSchemaProps" {
			schemaProps = i
		}
	}
	out := map[string]any{"kinds": kinds, "messages": table, "schema": schemaProps}
	if err := json.NewEncoder(os.Stdout).Encode(out); err != nil {
		panic(err)
	}
}
