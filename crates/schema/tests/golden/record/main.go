// Records what Kubernetes says about schemas, objects and definitions: one JSON case a line in,
// the same line with a verdict out. See ../README.md.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sort"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdvalidation "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"
)

// In is a case: a definition, or a schema with an object and perhaps its old state.
type In struct {
	CRD    json.RawMessage `json:"crd"`
	Schema json.RawMessage `json:"schema"`
	New    json.RawMessage `json:"new"`
	Old    json.RawMessage `json:"old"`
}

func blocking(errs field.ErrorList) bool {
	for _, err := range errs {
		switch err.Type {
		case field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid:
			return true
		}
	}
	return false
}

func parse(raw json.RawMessage) map[string]interface{} {
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	var v map[string]interface{}
	if err := utiljson.Unmarshal(raw, &v); err != nil {
		panic(err)
	}
	return v
}

func main() {
	sc := bufio.NewScanner(os.Stdin)
	sc.Buffer(make([]byte, 1<<20), 1<<26)
	for sc.Scan() {
		var in In
		if err := json.Unmarshal(sc.Bytes(), &in); err != nil {
			panic(err)
		}
		out := map[string]interface{}{}
		if in.CRD != nil {
			var crd v1.CustomResourceDefinition
			if err := json.Unmarshal(in.CRD, &crd); err != nil {
				out["decode"] = err.Error()
			} else {
				v1.SetDefaults_CustomResourceDefinition(&crd)
				var internal apiextensions.CustomResourceDefinition
				if err := v1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(&crd, &internal, nil); err != nil {
					panic(err)
				}
				errs := crdvalidation.ValidateCustomResourceDefinition(context.TODO(), &internal)
				out["errors"] = texts(errs)
			}
		} else {
			var props v1.JSONSchemaProps
			if err := json.Unmarshal(in.Schema, &props); err != nil {
				panic(err)
			}
			var internal apiextensions.JSONSchemaProps
			if err := v1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(&props, &internal, nil); err != nil {
				panic(err)
			}
			s, err := structuralschema.NewStructural(&internal)
			if err != nil {
				out["decode"] = err.Error()
			} else {
				validator, _, err := validation.NewSchemaValidator(&internal)
				if err != nil {
					panic(err)
				}
				obj, old := parse(in.New), parse(in.Old)
				unknown := pruning.PruneWithOptions(obj, s, true, structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
				defaulting.PruneNonNullableNullsWithoutDefaults(obj, s)
				defaulting.Default(obj, s)
				out["unknown"] = append([]string{}, unknown...)
				var errs field.ErrorList
				var opts []validation.ValidationOption
				var celOpts []cel.Option
				if old != nil {
					c := common.NewCorrelatedObject(obj, old, &model.Structural{Structural: s})
					opts = append(opts, validation.WithRatcheting(c))
					celOpts = append(celOpts, cel.WithRatcheting(c))
					errs = append(errs, validation.ValidateCustomResourceUpdate(nil, obj, old, validator, opts...)...)
				} else {
					errs = append(errs, validation.ValidateCustomResource(nil, obj, validator)...)
				}
				errs = append(errs, objectmeta.Validate(nil, obj, s, false)...)
				if old == nil || len(listtype.ValidateListSetsAndMaps(nil, s, old)) == 0 {
					errs = append(errs, listtype.ValidateListSetsAndMaps(nil, s, obj)...)
				}
				if cv := cel.NewValidator(s, true, celconfig.PerCallLimit); cv != nil {
					if blocking(errs) {
						errs = append(errs, field.Invalid(nil, nil, "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"))
					} else {
						var o interface{}
						if old != nil {
							o = old
						}
						ce, _ := cv.Validate(context.TODO(), nil, s, obj, o, celconfig.RuntimeCELCostBudget, celOpts...)
						errs = append(errs, ce...)
					}
				}
				out["errors"] = texts(errs)
				out["object"] = obj
			}
		}
		var whole map[string]interface{}
		if err := utiljson.Unmarshal(sc.Bytes(), &whole); err != nil {
			panic(err)
		}
		whole["says"] = out
		b, err := json.Marshal(whole)
		if err != nil {
			panic(err)
		}
		fmt.Println(string(b))
	}
}

func texts(errs field.ErrorList) []string {
	out := []string{}
	for _, e := range errs {
		out = append(out, e.Error())
	}
	sort.Strings(out)
	return out
}
