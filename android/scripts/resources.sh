#!/bin/bash
# Merges the manifests and links the resources of the app with those of its AARs.
# usage: resources.sh main|test      main: what ships; test: with the AARs that only tests need
# out: app/target/linked/KIND/: AndroidManifest.xml, res.ap_, java/**/R.java, keep.pro (what the manifest names, for R8)
. "$(dirname "$0")/lib.sh"
kind=${1:?main or test}
out=$root/app/target/linked/$kind
kinds=(main); [ "$kind" = test ] && kinds=(main test)

# Up to date when nothing that goes in is newer.
inputs=("$root/app/src/main/AndroidManifest.xml" "$root/app/src/main/res" "$root/scripts" "$aars/unpacked.stamp")
if [ -f "$out/done" ] && [ -z "$(find "${inputs[@]}" -newer "$out/done" -print -quit)" ]; then exit 0; fi
rm -rf "$out"; mkdir -p "$out/java"

mapfile -t dirs < <(aar_dirs "${kinds[@]}")
libraries=; packages=; flats=()
for dir in "${dirs[@]}"; do
    libraries+=:$dir/AndroidManifest.xml
    [ -s "$dir/R.txt" ] && packages+=:$(manifest_package "$dir")
done
for k in "${kinds[@]}"; do for flat in "$aars/flat/$k"/*.zip; do flats+=(-R "$flat"); done; done

# Without --remove-tools-declarations an element marked tools:node="remove" stays in, and no framework parses it.
java -cp "$(tool_classpath merger)" com.android.manifmerger.Merger --remove-tools-declarations \
    --main "$root/app/src/main/AndroidManifest.xml" --libs "${libraries#:}" \
    --property "PACKAGE=$package" --property "MIN_SDK_VERSION=$min_sdk" --property "TARGET_SDK_VERSION=$target_sdk" \
    --property VERSION_CODE=1 --property VERSION_NAME=1.0 \
    --out "$out/AndroidManifest.xml" > "$out/merger.log" 2>&1 || { cat "$out/merger.log" >&2; die "manifest merge failed"; }

# extractNativeLibs="false" is what the Android Gradle plugin adds: libraries are mapped from the APK.
sed -e 's/<application$/<application android:extractNativeLibs="false"/' "$out/AndroidManifest.xml" > "$out/AndroidManifest.aapt2.xml"

aapt2 compile --dir "$root/app/src/main/res" -o "$out/app.zip"
# Silenced: parts of the framework's table that it skips, and elements that it does not know (they go in all the same).
aapt2 link -o "$out/res.ap_" -I "$aars/framework.apk" --manifest "$out/AndroidManifest.aapt2.xml" \
    --min-sdk-version "$min_sdk" --target-sdk-version "$target_sdk" \
    --warn-manifest-validation --auto-add-overlay --non-final-ids --no-version-vectors --java "$out/java" --proguard "$out/keep.pro" \
    --extra-packages "${packages#:}" "${flats[@]}" -R "$out/app.zip" \
    2> >(grep -vE 'Unknown chunk|warn: unexpected element <queries>' >&2)
touch "$out/done"
