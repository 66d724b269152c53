package main

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"reflect"
	"time"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// cases prints objects of every kind, one a line, as protobuf and as JSON: an empty one, and
// others with about half of their fields filled.
func cases(all *runtime.Scheme, gvks []schema.GroupVersionKind) {
	random := rand.New(rand.NewSource(7))
	serializer := protobuf.NewSerializer(all, all)
	out := json.NewEncoder(os.Stdout)
	for _, gvk := range gvks {
		for round := 0; round < 3; round++ {
			object, err := all.New(gvk)
			if err != nil {
				panic(err)
			}
			if round > 0 {
				fill(random, reflect.ValueOf(object).Elem(), 0)
			}
			object.GetObjectKind().SetGroupVersionKind(gvk)
			body, err := runtime.Encode(serializer, object)
			if err != nil {
				panic(fmt.Sprintf("%s: %v", gvk, err))
			}
			text, err := json.Marshal(object)
			if err != nil {
				panic(fmt.Sprintf("%s: %v", gvk, err))
			}
			if err := out.Encode(map[string]any{"protobuf": body, "json": json.RawMessage(text)}); err != nil {
				panic(err)
			}
		}
	}
}

func fill(random *rand.Rand, v reflect.Value, depth int) {
	moment := time.Unix(1700000000+random.Int63n(1e7), 0).UTC()
	switch target := v.Addr().Interface().(type) {
	case *metav1.TypeMeta:
		return
	case *metav1.Time:
		target.Time = moment
		return
	case *metav1.MicroTime:
		target.Time = moment.Add(time.Duration(random.Intn(1000000)) * time.Microsecond)
		return
	case *metav1.FieldsV1:
		target.Raw = []byte(`{"f:spec":{}}`)
		return
	case *resource.Quantity:
		*target = *resource.NewQuantity(random.Int63n(1000), resource.BinarySI)
		return
	case *intstr.IntOrString:
		*target = intstr.FromInt32(random.Int31n(100))
		if random.Intn(2) == 0 {
			*target = intstr.FromString("25%")
		}
		return
	case *runtime.RawExtension:
		target.Raw = []byte(`{"kind":"X","n":[1,null]}`)
		return
	case *apiextensions.JSON:
		target.Raw = []byte([]string{`1`, `"a"`, `{"a":[true]}`}[random.Intn(3)])
		return
	case *apiextensions.JSONSchemaPropsOrArray:
		if random.Intn(2) == 0 {
			target.Schema = &apiextensions.JSONSchemaProps{Type: "string"}
		} else {
			target.JSONSchemas = []apiextensions.JSONSchemaProps{{Type: "string"}, {}}
		}
		return
	case *apiextensions.JSONSchemaPropsOrBool:
		target.Allows = random.Intn(2) == 0
		if random.Intn(2) == 0 {
			target.Allows = true
			target.Schema = &apiextensions.JSONSchemaProps{Type: "string"}
		}
		return
	case *apiextensions.JSONSchemaPropsOrStringArray:
		if random.Intn(2) == 0 {
			target.Schema = &apiextensions.JSONSchemaProps{Type: "string"}
		} else {
			target.Property = []string{"a", "b"}
		}
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString([]string{"", "a", "text", "\u00e9"}[random.Intn(4)])
	case reflect.Bool:
		v.SetBool(random.Intn(2) == 0)
	case reflect.Int32, reflect.Int64, reflect.Int:
		v.SetInt([]int64{0, 1, -1, 1 << 20}[random.Intn(4)])
	case reflect.Float64:
		v.SetFloat(0.5)
	case reflect.Pointer:
		if depth < 12 && random.Intn(2) == 0 {
			v.Set(reflect.New(v.Type().Elem()))
			fill(random, v.Elem(), depth+1)
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte{0, 1, 255})
			return
		}
		if depth < 12 && random.Intn(2) == 0 {
			v.Set(reflect.MakeSlice(v.Type(), 1+random.Intn(2), 2))
			for i := 0; i < v.Len(); i++ {
				fill(random, v.Index(i), depth+2)
			}
		}
	case reflect.Map:
		if depth < 12 && random.Intn(2) == 0 {
			v.Set(reflect.MakeMap(v.Type()))
			value := reflect.New(v.Type().Elem()).Elem()
			fill(random, value, depth+2)
			v.SetMapIndex(reflect.ValueOf("key").Convert(v.Type().Key()), value)
		}
	case reflect.Struct:
		for i := 0; i < v.NumField(); i++ {
			field := v.Type().Field(i)
			// What does not travel in protobuf is not compared.
			if field.Anonymous || field.Tag.Get("protobuf") != "" {
				fill(random, v.Field(i), depth+1)
			}
		}
	}
}
