//! Pictures that are made, not kept.

/// A picture of one dot, as PNG: each colour is another file.
pub fn dot(red: u8, green: u8, blue: u8) -> Vec<u8> {
    png(1, &[red, green, blue])
}

/// Dots on each side of a [`screenshot`].
const SCREEN: u16 = 700;

/// A picture of 700 × 700 dots that look like noise, as PNG of 1.4 MiB: each seed is another file.
pub fn screenshot(seed: u8) -> Vec<u8> {
    let mut noise = u32::from(seed);
    let pixels: Vec<u8> = (0..usize::from(SCREEN) * usize::from(SCREEN) * 3)
        .map(|_| {
            noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            noise.to_be_bytes()[0]
        })
        .collect();
    png(SCREEN, &pixels)
}

/// A square of pixels of three bytes each, uncompressed.
fn png(side: u16, pixels: &[u8]) -> Vec<u8> {
    let mut png = b"\x89PNG\r\n\x1a\n".to_vec();
    let mut chunk = |kind: &[u8; 4], data: &[u8]| {
        let length = u32::try_from(data.len()).expect("a small picture");
        png.extend(length.to_be_bytes());
        let body = [&kind[..], data].concat();
        png.extend(&body);
        png.extend(crc(&body).to_be_bytes());
    };
    let side_bytes = u32::from(side).to_be_bytes();
    chunk(
        b"IHDR",
        &[&side_bytes[..], &side_bytes, &[8, 2, 0, 0, 0]].concat(),
    );
    // Each row begins with its filter: none.
    let rows = pixels.chunks(usize::from(side) * 3);
    let rows: Vec<u8> = rows
        .flat_map(|row| std::iter::once(&0).chain(row))
        .copied()
        .collect();
    chunk(b"IDAT", &stored(&rows));
    chunk(b"IEND", &[]);
    png
}

/// A zlib stream of stored blocks.
fn stored(data: &[u8]) -> Vec<u8> {
    let mut stream = vec![0x78, 0x01];
    let mut blocks = data.chunks(usize::from(u16::MAX)).peekable();
    while let Some(block) = blocks.next() {
        let length = u16::try_from(block.len()).expect("a block is that small");
        stream.push(u8::from(blocks.peek().is_none()));
        stream.extend(length.to_le_bytes());
        stream.extend((!length).to_le_bytes());
        stream.extend(block);
    }
    stream.extend(adler(data).to_be_bytes());
    stream
}

fn crc(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0xedb8_8320 & (0_u32.wrapping_sub(crc & 1)));
        }
    }
    !crc
}

fn adler(bytes: &[u8]) -> u32 {
    let (mut a, mut b) = (1_u32, 0_u32);
    for byte in bytes {
        a = (a + u32::from(*byte)) % 65_521;
        b = (b + a) % 65_521;
    }
    b << 16 | a
}
